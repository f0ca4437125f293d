"""Plans as the API shows them, and what the log says of a query: every member, written out."""

from datetime import UTC, datetime
from typing import Any

from tests.fakes import SEAL
from tests.worlds.days import Days
from tidetable.conditions import Condition, NameConditions
from tidetable.config import parse
from tidetable.layout import Index, Layout
from tidetable.periods import parse_label
from tidetable.query import explain_query, parse_query
from tidetable.query.model import Query
from tidetable.query.rankings import explain_top, find_top, parse_ranking
from tidetable.where import name_conditions

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
LAYOUT = Layout("time", 3, "id", 86_400)


class NoTables:
    """Nobody knows a table's size."""

    def describe(self, name: str) -> None:
        """No table is there."""


INDEXED = Layout("time", 4, "id", 43_200, (Index("copy", replica=True),))


def test_a_plan_shows_the_query_its_scans_and_what_is_not_there() -> None:
    """Of four days the first was never made, the second is archived, and the table of the fourth has a replica."""
    days = Days()
    days.add_archive(parse_label("2026-03-02"), LAYOUT, [])
    days.add_table(parse_label("2026-03-03"), LAYOUT, [])
    days.add_table(parse_label("2026-03-04"), INDEXED, [])
    stream = parse(
        '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\n'
        'key = { partition_by = "time", bucket = "24h", shards = 3 }'
    ).streams["s"]
    parameters = {"from": "2026-03-01T06:00:00Z", "to": "2026-03-04T12:00:00Z", "order": "asc", "limit": "7"}
    parameters |= {"priority": "low", "where.mag:ge": "5", "id": "e1"}

    def explain(**more: str) -> dict[str, Any]:
        query_string = {name: [value] for name, value in (parameters | more).items()}
        tables: Any = NoTables()
        return explain_query(parse_query(stream, query_string, NOON, SEAL), stream, days.reader, tables, NOON)

    plan = explain()
    assert plan["query"] == {
        "stream": "s",
        "from": "2026-03-01T06:00:00.000000Z",
        "to": "2026-03-04T12:00:00.000000Z",
        "series": None,
        "id": ["e1"],
        "where": [{"field": "mag", "ge": ["5"]}],
        "order": "asc",
        "limit": 7,
        "consistent": False,
        "priority": "low",
    }
    filters = {"filtered_by": ["id", "where.mag"], "fetches": False, "unpacks": False}
    assert plan["stages"] == [
        {
            "period": "2026-03-02",
            "source": "archive",
            "table": None,
            "index": None,
            "from": "2026-03-02T00:00:00.000000Z",
            "to": "2026-03-03T00:00:00.000000Z",
            "ranges": 1,
            "filtered_by": [],
            "fetches": False,
            "unpacks": False,
        },
        {
            "period": "2026-03-03",
            "source": "table",
            "table": "tidetable-t.s.2026-03-03",
            "index": None,
            "from": "2026-03-03T00:00:00.000000Z",
            "to": "2026-03-04T00:00:00.000000Z",
            "ranges": 1,
        }
        | filters,
        {
            "period": "2026-03-04",
            "source": "replica",
            "table": "tidetable-t.s.2026-03-04",
            "index": "copy",
            "from": "2026-03-04T00:00:00.000000Z",
            "to": "2026-03-04T12:00:00.000000Z",
            "ranges": 1,
        }
        | filters,
    ]
    assert (plan["stages_left_out"], plan["gaps"]) == (
        0,
        [{"from": "2026-03-01T06:00:00.000000Z", "to": "2026-03-02T00:00:00.000000Z", "reason": "no table"}],
    )
    other = explain(order="desc", priority="normal", consistent="true")["query"]
    assert (other["order"], other["priority"], other["consistent"]) == ("desc", "normal", True)


def test_the_log_names_conditions_on_names_and_fields_once_each() -> None:
    conditions = (Condition("mag", "ge", ("1",)), Condition("mag", "ge", ("2",)), Condition("a", "in", ("x",)))
    query = Query("s", NOON, NOON, NameConditions(("a",), ("1",)), ascending=True, limit=1, conditions=conditions)
    assert name_conditions(query.conditions, query.names) == "a:in&id:eq&mag:ge&series:eq"


RANKED = parse(
    """
    [streams.s]
    period = "day"
    late = "1d"
    retention = 9
    key = { partition_by = "series", shards = 2 }
    [[streams.s.index]]
    name = "near"
    local = true
    sort_by = "mag"
    """
).streams["s"]


def test_a_plan_of_a_ranking_shows_the_ranking_and_no_gap_of_the_future() -> None:
    days = Days()
    days.add_table(parse_label("2026-03-05"), RANKED.layout, [])
    parameters = {"from": "2026-03-04T00:00:00Z", "to": "2026-03-07T00:00:00Z", "value": "a", "limit": "7"}
    parameters |= {"where.mag:ge": "5", "consistent": "true"}
    units = []
    for order in ("asc", "desc"):
        query_string = {name: [value] for name, value in (parameters | {"order": order}).items()}
        tables: Any = NoTables()
        plan = explain_top(parse_ranking(RANKED, query_string, NOON, SEAL), RANKED, days.reader, tables, NOON)
        assert plan["query"] == {
            "stream": "s",
            "index": "near",
            "value": "a",
            "from": "2026-03-04T00:00:00.000000Z",
            "to": "2026-03-07T00:00:00.000000Z",
            "where": [{"field": "mag", "ge": ["5"]}],
            "order": order,
            "limit": 7,
        }
        before = {"from": "2026-03-04T00:00:00.000000Z", "to": "2026-03-05T00:00:00.000000Z", "reason": "no table"}
        assert plan["gaps"] == [before]
        (scan,) = plan["stages"]
        assert (scan["index"], scan["ranges"], scan["filtered_by"]) == ("near", 2, ["where.mag"])
        units.append(plan["estimate"]["page"])
        top = find_top(parse_ranking(RANKED, query_string, NOON, SEAL), RANKED, days.reader, NOON, lambda: 100.0)
        assert top.document()["gaps"] == [before]
    # Two ranges that are read consistently take a unit each at the least.
    assert units == [{"read_units": 2.0, "requests": 2}] * 2


def test_an_index_that_came_after_the_range_is_named_with_the_period_since_which_tables_have_it() -> None:
    """Also in the plan of a ranking: the day of the range was made without the index, and the next day with it."""
    days = Days()
    days.add_table(parse_label("2026-03-04"), Layout("series", 2, "id"), [])
    days.add_table(parse_label("2026-03-05"), RANKED.layout, [])
    span = {"from": ["2026-03-04T00:00:00Z"], "to": ["2026-03-04T12:00:00Z"]}
    tables: Any = NoTables()
    query = parse_query(RANKED, span | {"series": ["a"]}, NOON, SEAL)
    ranking = parse_ranking(RANKED, span | {"value": ["a"]}, NOON, SEAL)
    since = {"near": "2026-03-05T00:00:00.000000Z"}
    assert explain_query(query, RANKED, days.reader, tables, NOON)["indexes_since"] == since
    assert explain_top(ranking, RANKED, days.reader, tables, NOON)["indexes_since"] == since
