"""Random histories of archives: pyiceberg and polars read the rows that the API reads."""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pyiceberg.table import StaticTable

from tests.worlds.lakes import LakeWorld, Row
from tidetable.catalog import State
from tidetable.times import to_text

# The planner in Rust would be another package.
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"
LABELS = ("2026-03-01", "2026-03-02", "2026-W11", "2026-04")
CONFIGURATIONS = ("", 'columns = { mag = "decimal(5,1)" }', 'columns = { mag = "decimal(9,1)", kind = "string" }')
rows: Any = st.lists(
    st.builds(
        Row,
        second=st.integers(0, 5),
        series=st.sampled_from(["a", "b#", "é"]),
        id=st.sampled_from([None, None, "0123456789abcdef", "x"]),
        data=st.fixed_dictionaries(
            {"mag": st.integers(-3, 3)}, optional={"kind": st.sampled_from(["new", "old"]), "n": st.integers(0, 2)}
        ),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row[:3],
)
steps: Any = st.lists(
    st.one_of(
        # An archive, of a new period or of one that was restored, in one file or two; late events come with the next one.
        st.tuples(st.just("archive"), st.sampled_from(LABELS), rows),
        st.tuples(st.just("state"), st.sampled_from(LABELS), st.sampled_from(["restoring", "closed", "deleted"])),
        st.tuples(st.just("expire"), st.sampled_from(LABELS), st.none()),
        st.tuples(st.just("configure"), st.none(), st.sampled_from(CONFIGURATIONS)),
        st.tuples(st.just("reconcile"), st.none(), st.none()),
        st.tuples(st.just("lose"), st.none(), st.sampled_from(["*.metadata.json", "snap-*", "*-m0.avro"])),
    ),
    min_size=3,
    max_size=9,
)


def do_step(world: LakeWorld, kind: str, label: Any, what: Any) -> None:
    known = {period.label: entry for (_, period), entry in world.catalog.items.items()}
    if kind == "archive":
        world.archive(label, *filter(None, (what[::2], what[1::2])))
    elif kind == "configure":
        world.configure("day", what)
    elif kind == "reconcile":
        world.reconcile()
    elif kind == "lose":
        for file in (world.bucket.folder / "iceberg/quakes/metadata").glob(what):
            file.unlink()
    elif label in known and kind == "state":
        world.change(label, state=State(what))
    elif label in known:
        facts = known[label].archive
        assert facts is not None
        world.change(label, archive=replace(facts, expired_at=world.clock.now()))


def compare(rows: Iterable[Mapping[str, Any]], columns: Collection[str]) -> list[Any]:
    """Make a list of rows with these columns. An id of 32 digits follows from content, so it may be null. A file that has no
    column for a field has its values in ``data``.
    """
    found = []
    for row in rows:
        id = row["id_hex"].hex() if row.get("id_hex") else row["id"]
        rest = json.loads(row.get("data", "{}"))
        mag = row.get("mag") if "mag" in columns else None
        kind = row.get("kind") or rest.get("kind", {}).get("S") if "kind" in columns else None
        kept = None if id is None or len(id) == 32 else id
        found.append((to_text(row["time"]), row["series"], kept, None if mag is None else float(mag), kind))
    return sorted(found, key=repr)


@given(history=steps)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # To make a failing history shorter would take minutes.
    phases=[Phase.reuse, Phase.generate],
)
def test_other_programs_read_the_rows_of_the_api(history: Any) -> None:
    with TemporaryDirectory() as folder:
        world = LakeWorld(Path(folder), archive=CONFIGURATIONS[1])
        for step in history:
            do_step(world, *step)
        world.reconcile()
        assert world.reconcile().changed is False
        columns = world.make_tables().open("quakes").list_columns()
        read = world.read_by_api()
        expected = compare(({"time": row[0], "series": row[1], "id": row[2], **row[3]} for row in read), columns)
        assert compare(world.read_by_pyiceberg(), columns) == expected
        table = StaticTable.from_metadata(world.find_metadata())
        assert compare(pl.scan_iceberg(table).collect().to_dicts(), columns) == expected
