"""Rules about several settings: only a configuration that breaks a rule is refused."""

import pytest

from tests.worlds.edges import INDEX, PROVISIONED, STREAM
from tidetable.config import parse
from tidetable.config.demand import list_demands
from tidetable.errors import ConfigError


def ladder(*steps: str) -> str:
    """A stream with these steps."""
    inner = ", ".join(f"{{ {step} }}" for step in steps)
    return STREAM + f'[streams.s.capacity]\nmode = "provisioned"\nladder = [{inner}]\n'


IA = 'class = "infrequent-access"'


RULES = [
    ("one class change", ladder("age = 0, write = 1, read = 1", f"age = 1, write = 1, read = 1, {IA}"), None),
    (
        "a class change and back",
        ladder("age = 0, write = 1, read = 1", f"age = 1, write = 1, read = 1, {IA}", "age = 2, write = 1, read = 1"),
        "the class changes more than once",
    ),
    ("a first table of the cheap class", ladder(f"age = 0, write = 1, read = 1, {IA}"), 'is cheaper in class = "standard"'),
    ("one change of mode", ladder("age = 0, write = 1, read = 1", 'age = 1, mode = "on-demand"'), None),
    (
        "a change of mode and back",
        ladder("age = 0, write = 1, read = 1", 'age = 1, mode = "on-demand"', "age = 2, write = 1, read = 1"),
        "the billing mode changes more than once",
    ),
    ("two steps of one age", ladder(*["age = 0, write = 1, read = 1"] * 2), "ages must rise"),
    ("units on demand", ladder('age = 0, mode = "on-demand", read = 1'), "on-demand tables have no units"),
    (
        "maxima of a provisioned table",
        PROVISIONED + "max = { write = 9, read = 9 }\n",
        '.capacity.max: only tables that are made in mode = "on-demand" have maxima',
    ),
    ("maxima on demand", STREAM + "[streams.s.capacity]\nmax = { write = 9, read = 9 }\n", None),
    (
        "maxima of nothing",
        STREAM + "[streams.s.capacity]\nmax = { write = 9, read = 0 }\n",
        ".capacity.max.read: 0 is not within 1",
    ),
    (
        "auto scaling on demand",
        STREAM + "[streams.s.capacity]\nautoscaling = { write = { min = 1, max = 2 } }\n",
        "on-demand tables follow their traffic",
    ),
    (
        "more units of an index than auto scaling may give it",
        ladder("age = 0, write = 5, read = 5, index = { own = { write = 10, read = 50 } }").replace(
            "mode =", "autoscaling = { write = { min = 5, max = 9 } }\nmode ="
        )
        + INDEX,
        "index.own.write: 10 is more than the 9 of autoscaling.write.max, to which auto scaling would lower it",
    ),
    (
        "an index's own read units",
        ladder("age = 0, write = 1, read = 1, index = { own = { write = 1, read = 0 } }") + INDEX,
        "index.own.read: 0 is not",
    ),
    (
        "units of an index that there is not",
        ladder("age = 0, write = 1, read = 1, index = { other = { write = 1, read = 1 } }") + INDEX,
        "index.other: the stream has no index of this name",
    ),
    (
        "a class from hours on",
        '[archive]\nstorage_class = "intelligent-tiering"\nstorage_class_after = "36h"\n' + STREAM,
        "archive.storage_class_after: 36h is not a whole number of days",
    ),
    (
        "a cold kind",
        STREAM.replace("= 3", "= 3\ncold = ['raw']") + '[[streams.s.index]]\nname = "own"\nkind = "raw"\n'
        'partition_by = { a = "b" }\n',
        "raw is a cold field",
    ),
    (
        "a field of a cold one",
        STREAM.replace("= 3", "= 3\ncold = ['raw']") + '[[streams.s.index]]\nname = "own"\npartition_by = "raw.n"\n',
        "raw.n is a cold field",
    ),
    (
        "a replica with suffixes",
        STREAM + '[[streams.s.index]]\nname = "own"\nreplica = true\nshards = 2\n',
        "a replica has the table's own keys",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), RULES)
def test_a_rule_holds_for_what_breaks_it_and_for_nothing_else(name: str, text: str, message: str | None) -> None:
    if message is None:
        parse(text)
        return
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert message in str(refused.value), name


SWITCHED = "[lifecycle]\ndelete_expired = true\n"


DEMANDS = [
    # Late events come for 9 days, whatever is kept: 9, one of grace, 1 + 1 + 2.
    ("late events longer than what is kept", SWITCHED + STREAM.replace("= 3", "= 9").replace('"1d"', '"9d"'), (14, 0)),
    ("two tables for each period", STREAM.replace("= 3", '= 3\ncold = ["raw"]'), (16, 730)),
    ("chunks, too", STREAM + '[streams.s.large]\nbeyond = "chunks"\n', (16, 730)),
    ("none beside it", STREAM + '[streams.s.large]\nbeyond = "s3"\n', (8, 365)),
    ("weeks", STREAM.replace('"day"', '"week"'), (8, 53)),
]


@pytest.mark.parametrize(("name", "text", "wanted"), DEMANDS)
def test_a_stream_needs_so_many_tables_at_once_and_so_many_more_each_year(
    name: str, text: str, wanted: tuple[int, int]
) -> None:
    assert [(need.tables, need.yearly) for need in list_demands(parse(text))] == [wanted], name


def test_a_step_holds_from_its_age_on() -> None:
    steps = parse(ladder("age = 0, write = 9, read = 9", "age = 2, write = 5, read = 5")).streams["s"].capacity
    assert [steps.step_at(age).write for age in (0, 1, 2, 3)] == [9, 9, 5, 5]


def test_a_stream_keeps_its_archives_as_it_says_and_as_all_do_where_it_says_nothing() -> None:
    text = (
        '[archive]\nexpire_after = "90d"\nstorage_class = "infrequent-access"\nstorage_class_after = "40d"\n'
        + STREAM
        + '[streams.s.archive]\nexpire_after = "60d"\nstorage_class_after = "31d"\n'
        + STREAM.replace("streams.s", "streams.t")
        + '[streams.t.archive]\nstorage_class = "glacier-instant-retrieval"\n'
    )
    config = parse(text)
    assert [
        (str(keeping.expire_after), keeping.storage_class, str(keeping.storage_class_after))
        for keeping in (config.find_keeping("s"), config.find_keeping("t"), config.find_keeping("removed"))
    ] == [
        ("60d", "infrequent-access", "31d"),
        ("90d", "glacier-instant-retrieval", "40d"),
        ("90d", "infrequent-access", "40d"),
    ]


def test_a_stream_keeps_its_archives_for_ever_although_others_expire() -> None:
    config = parse('[archive]\nexpire_after = "90d"\n' + STREAM + '[streams.s.archive]\nexpire_after = "0s"\n')
    assert not config.find_keeping("s").expire_after
    assert str(config.archive.expire_after) == "90d"


def test_an_auto_scaling_policy_that_differs_in_anything_has_another_text() -> None:
    """By this text the lifecycle sees that a table has an earlier policy."""
    ranges: tuple[str, ...] = (
        "write = { min = 1, max = 9 }",
        "write = { min = 2, max = 9 }",
        "write = { min = 1, max = 8 }",
    )
    ranges += ("write = { min = 1, max = 9, target = 71 }", "read = { min = 1, max = 9 }")
    ranges += ("write = { min = 1, max = 9 }, read = { min = 1, max = 9 }",)
    scalings = [
        parse(PROVISIONED + f"autoscaling = {{ {text} }}\n").streams["s"].capacity.autoscaling for text in ranges
    ]
    assert len({scaling.text for scaling in scalings if scaling is not None}) == 6
