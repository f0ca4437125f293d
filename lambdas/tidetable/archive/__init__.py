"""The archive. An expired table is written to S3, read back and compared. Only then it is marked as archived."""

from tidetable.archive.digest import ItemsDigest
from tidetable.archive.export import Archived, archive_period
from tidetable.archive.exporter import Exporter
from tidetable.archive.manifest import Manifest
from tidetable.archive.restore import Restorer

__all__ = [
    "Archived",
    "Exporter",
    "ItemsDigest",
    "Manifest",
    "Restorer",
    "archive_period",
]
