"""The feed of a stream delivers the changes of all of the stream's period tables to the targets of the configuration."""

from tidetable.feed.changes import Change, ChangeReader, StreamRecord
from tidetable.feed.deliver import deliver
from tidetable.feed.targets import Delivered, Feed

__all__ = ["Change", "ChangeReader", "Delivered", "Feed", "StreamRecord", "deliver"]
