"""Keys: where an event lives, calculated from the event and its period's layout alone."""

from tidetable.keys.hierarchy import number_text
from tidetable.keys.index import ATTRIBUTES, TIME, WHOLE, Index, number_at, value_at, value_text
from tidetable.keys.layout import Key, Layout, Packing
from tidetable.keys.ref import Ref, is_plain, ref_head, ref_tails, ref_texts
from tidetable.keys.suffix import suffix_of
from tidetable.keys.text import MAX_NAME_BYTES, escape, unescape

__all__ = [
    "ATTRIBUTES", "MAX_NAME_BYTES", "TIME", "WHOLE", "Index", "Key", "Layout", "Packing", "Ref", "is_plain",
    "number_at", "number_text", "ref_head", "ref_tails", "ref_texts", "escape", "suffix_of", "unescape", "value_at",
    "value_text",
]  # fmt: skip
