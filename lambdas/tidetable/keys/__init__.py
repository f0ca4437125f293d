"""Keys: where an event lives, calculated from the event and its period's layout alone."""

from tidetable.keys.index import Index, value_text
from tidetable.keys.layout import Key, Layout
from tidetable.keys.ref import Ref, ref_head, ref_tail, ref_text
from tidetable.keys.suffix import suffix_of
from tidetable.keys.text import MAX_NAME_BYTES, escape, unescape

__all__ = [
    "MAX_NAME_BYTES",
    "Index",
    "Key",
    "Layout",
    "Ref",
    "ref_head",
    "ref_tail",
    "ref_text",
    "escape",
    "suffix_of",
    "unescape",
    "value_text",
]
