"""The ladder's step for late events: its position and its values."""

import pytest

from tidetable.config import parse
from tidetable.config.demand import give_advice
from tidetable.errors import ConfigError

SWITCHED = "[lifecycle]\ndelete_expired = true\n"
GOOD = """
[streams.s]
period = "day"
late = "1d"
retention = 3
[streams.s.key]
partition_by = "time"
bucket = "6h"
"""
INDEX = """
[[streams.s.index]]
name = "by_kind"
partition_by = "kind"
"""


def ladder(*steps: str) -> str:
    listed = ", ".join(f"{{{step}}}" for step in steps)
    return f'{GOOD}[streams.s.capacity]\nmode = "provisioned"\nladder = [{listed}]\n'


def late_step(late: str, read: int) -> str:
    steps = ladder("age = 0, write = 1, read = 1", f'age = "late", write = 1, read = {read}')
    return steps.replace('late = "1d"', f'late = "{late}"')


PROBLEMS = [
    (
        "a ladder that begins with late events",
        ladder('age = "late", write = 1, read = 1', "age = 0, write = 2, read = 2"),
        "the first step has age = 0, the table that is being written",
    ),
    (
        "late events after the closing",
        ladder("age = 0, write = 2, read = 2", "age = 1, write = 1, read = 1", 'age = "late", write = 1, read = 1'),
        'capacity.ladder: age = "late" stands directly after age = 0, and once',
    ),
    (
        "late events twice",
        ladder("age = 0, write = 2, read = 2", *['age = "late", write = 1, read = 1'] * 2),
        'capacity.ladder: age = "late" stands directly after age = 0, and once',
    ),
    (
        "late events without units",
        ladder("age = 0, write = 2, read = 2", 'age = "late", read = 1'),
        "capacity.ladder (age = late).write: missing; provisioned tables need units",
    ),
    (
        "late events with more units than the others",
        ladder("age = 0, write = 2, read = 2", 'age = "late", write = 3, read = 2'),
        "capacity.ladder (age = late).write: 3 is more than the 2 of age = 0, and this step lowers tables",
    ),
    (
        "an index of late events with more units than the others",
        ladder(
            "age = 0, write = 2, read = 2",
            'age = "late", write = 1, read = 2, index = { by_kind = { write = 3, read = 1 } }',
        )
        + INDEX,
        "capacity.ladder (age = late).index.by_kind.write: 3 is more than the 2 of age = 0",
    ),
    (
        "late events that scaling never reaches",
        ladder("age = 0, write = 2, read = 2", 'age = "late", write = 10, read = 2')
        + "autoscaling = { write = { min = 1, max = 9 } }\n",
        "capacity.ladder (age = late).write: 10 is more than the 9 of age = 0",
    ),
    (
        "late events of an on-demand table",
        GOOD + '[streams.s.capacity]\nladder = [{ age = 0 }, { age = "late" }]\n',
        "capacity.ladder (age = late): an on-demand table costs only what it uses, so this step changes nothing; remove it",
    ),
]
ADVICE = [
    ("a step for late events", SWITCHED + late_step("1d", 1), None),
    (
        "a window that ends before the step begins",
        SWITCHED + late_step("15m", 1),
        "(age = late): it holds from 15 minutes after",
    ),
    ("a window that ends after it", SWITCHED + late_step("16m", 1), None),
    ("more reads for late events", SWITCHED + late_step("1d", 2), "(age = late).read: 2 is more than the 1 of age = 0"),
]


@pytest.mark.parametrize(("name", "text", "message"), PROBLEMS, ids=[name for name, _, _ in PROBLEMS])
def test_what_cannot_be_is_said_with_the_key_and_the_fix(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert message in str(refused.value)


def test_a_first_step_above_its_scaling_is_one_problem_and_not_one_of_the_late_step() -> None:
    steps = ladder("age = 0, write = 20, read = 2", 'age = "late", write = 15, read = 2')
    with pytest.raises(ConfigError) as refused:
        parse(steps + "autoscaling = { write = { min = 1, max = 9 } }\n")
    (problem,) = refused.value.problems
    assert problem.startswith("streams.s.capacity.autoscaling.write: the first step's 20 units")


@pytest.mark.parametrize(("name", "text", "message"), ADVICE, ids=[name for name, _, _ in ADVICE])
def test_what_is_hardly_meant_is_advised_against(name: str, text: str, message: str | None) -> None:
    hints = give_advice(parse(text))
    assert len(hints) == (message is not None)
    assert message is None or message in hints[0]


def test_the_step_holds_between_the_first_and_the_next() -> None:
    steps = ("age = 0, write = 9, read = 9", 'age = "late", write = 7, read = 9', "age = 2, write = 5, read = 5")
    capacity = parse(ladder(*steps)).streams["s"].capacity
    assert [capacity.step_at(0, lowered=lowered).write for lowered in (False, True)] == [9, 7]
    assert [capacity.step_at(age, lowered=lowered).write for age in (1, 2) for lowered in (False, True)] == [7, 7, 5, 5]
