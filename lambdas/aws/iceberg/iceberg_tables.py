"""The tables of a stage in its Glue database. Their metadata are objects of the stage's bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, cast

from pyiceberg.catalog import METADATA_LOCATION
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.name_mapping import MappedField, NameMapping, create_mapping_from_schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import ExpireSnapshots, _MergeAppendFiles, _OverwriteFiles
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Properties
from pyiceberg.types import NestedField

from aws.errors import ignore_refusal
from aws.iceberg.file_io import MetadataFiles
from aws.iceberg.schema import is_wider, make_data_file, make_type, name_type, read_data_file
from tidetable.archive.ports import Objects
from tidetable.lake.columns import PERIOD
from tidetable.lake.lake_tables import LAKE, LakeChange, LakeConflict, LakeFile, LakeRefused
from tidetable.large.sweep_ports import Store
from tidetable.names import name_lake_table

# The parameter of a table that this code made, in Glue: the stream. Earlier versions made tables of another kind, with a
# digest. Other tables of the database stay.
_STREAM, _DIGEST = "tidetable.stream", "tidetable.digest"
# Metadata may belong to a commit that is under way, or to a query that has begun.
_UNUSED = timedelta(days=1)
# Iceberg itself uses numbers from 2,147,483,447 on.
_HIDDEN = 2_000_000_000
_MAPPING = "schema.name-mapping.default"
_PROPERTIES = {
    "format-version": "2",
    # Other programs must not delete data files together with snapshots: the archive alone does.
    "gc.enabled": "false",
    # A commit on other metadata than was read is no commit: the difference is computed anew.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}


class _Glue(GlueCatalog):
    """Glue's catalog with the metadata of this stage's bucket. It opens one table, and commits to that state of it only."""

    def __init__(self, client: Any, files: MetadataFiles) -> None:
        super().__init__("tidetable", client)
        self._files = files
        self._opened = ""

    def hold(self, table: Table) -> Table:
        """Remember the state that a table has now."""
        self._opened = table.metadata_location
        return table

    def _get_glue_table(self, database_name: str, table_name: str) -> Any:
        # A commit reads Glue's table first, and Glue refuses it if the table has changed since. pyiceberg itself would also
        # commit to another state, unless the snapshot or the schema of which it knows is another.
        table = super()._get_glue_table(database_name, table_name)
        if self._opened and table["Parameters"].get(METADATA_LOCATION) != self._opened:
            raise CommitFailedException(f"the table {table_name} has changed since it was opened")
        return table

    def _load_file_io(self, properties: Properties | None = None, location: str | None = None) -> FileIO:  # noqa: ARG002 - pyiceberg's signature
        return self._files


class _ReplaceFiles(_OverwriteFiles, _MergeAppendFiles):
    """Removes and adds files in one snapshot, and merges small manifests: a table grows by a manifest per commit."""

    def _build_manifest_evaluator(self, _: int) -> Callable[[ManifestFile], bool]:
        # The files that leave are named. A predicate of their periods, as deep as there are periods, finds them no faster.
        return lambda _manifest: True

    def _build_delete_files_partition_predicate(self) -> None:
        pass


class IcebergTables:
    """The tables of one database, over the files of the bucket with the address ``root``, such as ``s3://bucket/``.

    Glue's client is created at its first use.
    """

    def __init__(
        self,
        client: Callable[[], Any],
        database: str,
        root: str,
        objects: Objects,
        store: Store,
        keep_snapshots: int,
    ) -> None:
        self._client = client
        self._database = database
        self._root = root
        self._objects = objects
        self._store = store
        self._keep = keep_snapshots

    def open(self, stream: str) -> IcebergTable:
        name = name_lake_table(stream)
        catalog, parameters = (
            _Glue(self._client(), MetadataFiles(self._objects, self._root)),
            self._find_parameters(name),
        )
        if parameters is not None and _STREAM in parameters:
            # Without its metadata a table says nothing. They follow from the archive, so they are made anew.
            with suppress(FileNotFoundError):
                return self._hold(catalog, catalog.load_table((self._database, name)))
        elif parameters is not None and _DIGEST not in parameters:
            raise LakeRefused(f"the database {self._database} has a table {name} that somebody else made")
        if parameters is not None:
            self._drop(name)
        schema = Schema(NestedField(1, PERIOD, make_type("string"), required=False))
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), PERIOD))
        properties = _PROPERTIES | {_STREAM: stream, "Description": f"Archived periods of the stream {stream}"}
        location = f"{self._root}{LAKE}{name}"
        table = catalog.create_table((self._database, name), schema, location, spec, properties=properties)
        return self._hold(catalog, table)

    def drop_others(self, streams: Sequence[str]) -> Sequence[str]:
        kept = {name_lake_table(stream) for stream in streams}
        pages = self._client().get_paginator("get_tables").paginate(DatabaseName=self._database)
        dropped = [
            table["Name"]
            for page in pages
            for table in page["TableList"]
            if table["Name"] not in kept and not {_STREAM, _DIGEST}.isdisjoint(table.get("Parameters", {}))
        ]
        for name in dropped:
            self._drop(name)
            self._objects.clear(f"{LAKE}{name}/")
        return dropped

    def _hold(self, catalog: _Glue, table: Table) -> IcebergTable:
        return IcebergTable(catalog.hold(table), self._root, self._store, self._keep)

    def _find_parameters(self, name: str) -> Mapping[str, str] | None:
        with ignore_refusal("EntityNotFoundException"):
            table = self._client().get_table(DatabaseName=self._database, Name=name)["Table"]
            return cast("Mapping[str, str]", table.get("Parameters", {}))
        return None

    def _drop(self, name: str) -> None:
        with ignore_refusal("EntityNotFoundException"):
            self._client().delete_table(DatabaseName=self._database, Name=name)


class IcebergTable:
    """A table as it was when it was opened. FileNotFoundError if some of its metadata is lost."""

    def __init__(self, table: Table, root: str, store: Store, keep: int) -> None:
        self._table = table
        self._root = root
        self._store = store
        self._keep = keep
        snapshot = table.current_snapshot()
        manifests = [] if snapshot is None else snapshot.manifests(table.io)
        self._data_files = {
            entry.data_file.file_path: entry.data_file
            for manifest in manifests
            if manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(table.io)
        }

    def list_files(self) -> Mapping[str, LakeFile]:
        schema = self._table.schema()
        files = (read_data_file(file, self._root, schema) for file in self._data_files.values())
        return {file.key: file for file in files}

    def list_columns(self) -> Mapping[str, str]:
        return {field.name: name_type(field.field_type) for field in self._table.schema().fields}

    def list_hidden(self) -> Sequence[str]:
        mapping = self._table.metadata.name_mapping()
        fields = [] if mapping is None else mapping.root
        return sorted(name for field in fields if (field.field_id or 0) >= _HIDDEN for name in field.names)

    def commit(self, change: LakeChange) -> None:
        try:
            with self._table.transaction() as transaction:
                if change.columns != self.list_columns():
                    _change_schema(transaction, change.columns)
                _map_names(transaction, change.hidden)
                if change.removed or change.added:
                    self._replace_files(transaction, change)
                _expire_snapshots(transaction, self._keep)
        except (CommitFailedException, NoSuchTableError, ValidationException) as error:
            raise LakeConflict(str(error)) from error

    def _replace_files(self, transaction: Transaction, change: LakeChange) -> None:
        operation = Operation.OVERWRITE if change.removed else Operation.APPEND
        update = _ReplaceFiles(operation, transaction, self._table.io)
        metadata = transaction.table_metadata
        for key in change.removed:
            # A file outside of the bucket has its whole address as its key.
            update.delete_data_file(self._data_files.get(self._root + key) or self._data_files[key])
        for file in change.added:
            update.append_data_file(make_data_file(file, self._root, metadata.schema(), metadata.default_spec_id))
        update.commit()

    def clean(self, now: datetime) -> int:
        metadata, io = self._table.metadata, self._table.io
        needed = {self._table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        for snapshot in metadata.snapshots:
            needed.add(snapshot.manifest_list)
            with suppress(FileNotFoundError):
                needed.update(manifest.manifest_path for manifest in snapshot.manifests(io))
        folder = f"{metadata.location}/metadata/".removeprefix(self._root)
        stored = self._store.stored(folder)
        old = [each.key for each in stored if self._root + each.key not in needed and each.written < now - _UNUSED]
        if old:
            self._store.delete(old)
        return len(old)


def _change_schema(transaction: Transaction, columns: Mapping[str, str]) -> None:
    """Give the table these columns. A column whose type cannot be widened becomes another column of the same name."""
    present = {field.name: field.field_type for field in transaction.table_metadata.schema().fields}
    with transaction.update_schema() as update:
        for name in present.keys() - columns.keys():
            update.delete_column(name)
        for name, kind in columns.items():
            wanted = make_type(kind)
            if name in present and present[name] != wanted:
                if is_wider(wanted, present[name]):
                    update.update_column(name, wanted)
                    continue
                update.delete_column(name)
            if present.get(name) != wanted:
                update.add_column(name, wanted)


def _map_names(transaction: Transaction, hidden: Sequence[str]) -> None:
    """Let readers find the columns of files by their names, because files have no numbers of columns.

    pyiceberg reads no file with a column that has no number, so hidden columns have numbers that no schema uses.
    """
    mapping = create_mapping_from_schema(transaction.table_metadata.schema())
    more = [MappedField.model_validate({"field-id": _HIDDEN + at, "names": [name]}) for at, name in enumerate(hidden)]
    text = NameMapping([*mapping.root, *more]).model_dump_json()
    if transaction.table_metadata.properties.get(_MAPPING) != text:
        transaction.set_properties({_MAPPING: text})


def _expire_snapshots(transaction: Transaction, keep: int) -> None:
    snapshots = sorted(transaction.table_metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    expired = [snapshot.snapshot_id for snapshot in snapshots[:-keep]]
    if expired:
        ExpireSnapshots(transaction).by_ids(expired).commit()
