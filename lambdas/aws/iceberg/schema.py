"""The types of Iceberg, and a table's files in its form."""

from __future__ import annotations

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

from tidetable.config.columns import parse_decimal
from tidetable.lake.lake_tables import LakeFile
from tidetable.times import from_micros, from_text, to_micros, to_text

# The types of columns by the configuration's names. A double and an integer have 64 bits.
_TYPES: dict[str, PrimitiveType] = {
    "string": StringType(),
    "boolean": BooleanType(),
    "integer": LongType(),
    "double": DoubleType(),
    "timestamp": TimestamptzType(),
    "binary": BinaryType(),
    "int": IntegerType(),
}
_NAMES: dict[IcebergType, str] = {kind: name for name, kind in _TYPES.items()}
# The columns with bounds, which readers compare with a query before they open a file.
_BOUNDED = {"time": TimestamptzType(), "series": StringType()}


def make_type(kind: str) -> PrimitiveType:
    """Make Iceberg's type of a column."""
    decimal = parse_decimal(kind)
    return DecimalType(*decimal) if decimal is not None else _TYPES[kind]


def is_wider(type: PrimitiveType, other: object) -> bool:
    """True if Iceberg can widen the other type to this one. Of the types here, these are decimals of one scale."""
    if not isinstance(type, DecimalType) or not isinstance(other, DecimalType):
        return False
    return type.scale == other.scale and type.precision > other.precision


def name_type(type: IcebergType) -> str:
    """Name a type of Iceberg as the configuration does; a type that this code never makes has Iceberg's name."""
    if isinstance(type, DecimalType):
        return f"decimal({type.precision},{type.scale})"
    return _NAMES.get(type, str(type))


def make_data_file(file: LakeFile, root: str, schema: Schema, spec_id: int) -> DataFile:
    """Describe a file: its facts are those of its manifest, so that nobody opens it."""
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for (name, kind), low, high in zip(
        _BOUNDED.items(), (file.oldest, file.least), (file.newest, file.greatest), strict=True
    ):
        if high:
            number = schema.find_field(name).field_id
            lower[number], upper[number] = (
                to_bytes(kind, text if name == "series" else to_micros(from_text(text))) for text in (low, high)
            )
    described = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=root + file.key,
        file_format=FileFormat.PARQUET,
        partition=Record(file.period),
        record_count=file.events,
        file_size_in_bytes=file.size,
        lower_bounds=lower,
        upper_bounds=upper,
    )
    described.spec_id = spec_id
    return described


def read_data_file(file: DataFile, root: str, schema: Schema) -> LakeFile:
    """Read what a table says of a file. A file that others have added may be described in another way."""
    bounds = []
    for name, kind in _BOUNDED.items():
        number = schema.find_field(name).field_id
        for stored in (file.lower_bounds, file.upper_bounds):
            raw = (stored or {}).get(number)
            value = "" if raw is None else from_bytes(kind, raw)
            bounds.append(value if isinstance(value, str) else to_text(from_micros(value)))
    oldest, newest, least, greatest = bounds
    return LakeFile(
        key=file.file_path.removeprefix(root),
        period=str(file.partition[0]) if len(file.partition) == 1 else "",
        events=file.record_count,
        size=file.file_size_in_bytes,
        oldest=oldest,
        newest=newest,
        least=least,
        greatest=greatest,
    )
