"""A sketch of a list of numbers is the sketch of its numbers, bin for bin."""

from hypothesis import given
from hypothesis import strategies as st

from aws.sketches import DDSketches


@given(st.lists(st.one_of(st.floats(-1e30, 1e30), st.sampled_from([0.0, -0.0, 1e-320, 1.0, 1.02]))), st.integers(0, 5))
def test_many_numbers_at_once_make_the_same_sketch(numbers: list[float], cut: int) -> None:
    one, other = DDSketches().new(), DDSketches().new()
    for number in numbers:
        one.add(number)
    other.add_all(numbers[:cut])
    other.add_all(numbers[cut:])
    assert other.dump() == one.dump()
    assert [other.quantile(share) for share in (0.0, 0.5, 1.0)] == [one.quantile(share) for share in (0.0, 0.5, 1.0)]
