"""The layout of a period: the keys of an event, calculated only from the event and from its period's rules."""

from tidetable.layout.hierarchy import render_number
from tidetable.layout.index import ATTRIBUTES, TIME, WHOLE, Index, find_number, find_plain, find_value
from tidetable.layout.period_layout import Key, Layout, Packing
from tidetable.layout.ref import Ref, encode_ref_head, encode_ref_tails, encode_refs, is_plain
from tidetable.layout.suffix import compute_suffix
from tidetable.layout.text import MAX_NAME_BYTES, escape, unescape

__all__ = [
    "ATTRIBUTES", "MAX_NAME_BYTES", "TIME", "WHOLE", "Index", "Key", "Layout", "Packing", "Ref", "compute_suffix",
    "encode_ref_head", "encode_ref_tails", "encode_refs", "escape", "find_number", "find_plain", "find_value",
    "is_plain", "render_number", "unescape",
]  # fmt: skip
