"""Large values: packing an event that does not fit its item, or should not, and completing it again."""

from tidetable.large.pack import Packer, Place
from tidetable.large.whole import Unpacker, Wholes

__all__ = ["Packer", "Place", "Unpacker", "Wholes"]
