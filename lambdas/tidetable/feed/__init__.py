"""The feed of a stream: the changes of all of its period tables, delivered to the targets of the configuration."""

from tidetable.feed.changes import Change, ChangeReader, Record
from tidetable.feed.deliver import Delivered, Feed, deliver

__all__ = ["Change", "ChangeReader", "Delivered", "Feed", "Record", "deliver"]
