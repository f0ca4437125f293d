"""Keys: the place of an event, calculated only from the event and the layout of its period."""

from tidetable.keys.hierarchy import render_number
from tidetable.keys.index import ATTRIBUTES, TIME, WHOLE, Index, find_number, find_value
from tidetable.keys.layout import Key, Layout, Packing
from tidetable.keys.ref import Ref, encode_ref_head, encode_ref_tails, encode_refs, is_plain
from tidetable.keys.suffix import compute_suffix
from tidetable.keys.text import MAX_NAME_BYTES, escape, unescape

__all__ = [
    "ATTRIBUTES", "MAX_NAME_BYTES", "TIME", "WHOLE", "Index", "Key", "Layout", "Packing", "Ref", "compute_suffix",
    "encode_ref_head", "encode_ref_tails", "encode_refs", "escape", "find_number", "find_value", "is_plain",
    "render_number", "unescape",
]  # fmt: skip
