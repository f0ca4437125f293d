"""Pages of listings whose values are long: an answer of any form holds at most what a function may send."""

import pytest

from aws.arrow import encode_stream
from tests.worlds.listings import ask_listing, names_of, roll_up
from tests.worlds.rolled import reading
from tidetable.query import AnswerForm, render_answer
from tidetable.query.page import count_body_bytes

# The length of the longest text that is not shortened.
_LONGEST = 2_100


def _make_values(count: int) -> list[str]:
    return [f"{number:05d}".ljust(_LONGEST, "x") for number in range(count)]


@pytest.mark.parametrize(
    "form", [AnswerForm("json"), AnswerForm("ndjson"), AnswerForm("csv")], ids=lambda form: form.kind
)
def test_a_page_of_long_values_is_cut_to_an_answer_and_continues(form: AnswerForm) -> None:
    world, values = roll_up(), _make_values(3_000)
    world.write(*(reading(366 + number / 1_000, 1, kind=value) for number, value in enumerate(values)))
    rendered = render_answer(ask_listing(world, "kind", limit="10000"), form, encode_stream)
    assert 5_500_000 < count_body_bytes(rendered.body) <= 6_000_000
    following = names_of(ask_listing(world, "kind", cursor=rendered.answer.next or "", limit="10000"))
    assert following == values[rendered.answer.count :]


def test_values_that_do_not_fit_into_memory_are_on_further_pages() -> None:
    """10,000 values of 2,100 characters are 21 million; 20 million are held, of which a page keeps 5 million."""
    world, values = roll_up(), _make_values(10_000)
    world.write(*(reading(366 + number / 10_000, 1, kind=value) for number, value in enumerate(values)))
    page = ask_listing(world, "kind", limit="10000")
    assert (page.next is not None, 0 < page.count < 10_000) == (True, True)
    found = names_of(page)
    while page.next is not None:
        page = ask_listing(world, "kind", cursor=page.next, limit="10000")
        found += names_of(page)
    assert found == values
