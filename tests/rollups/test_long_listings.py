"""Pages of listings whose values are long: an answer of any form holds at most what a function may send."""

import pytest

from aws.arrow import encode_stream
from tests.worlds.listings import ask_listing, names_of, roll_up
from tests.worlds.rolled import reading
from tidetable.query import Form, render_answer
from tidetable.query.page import count_body_bytes

_BYTES = 300_000


@pytest.mark.parametrize("form", [Form("json"), Form("ndjson"), Form("csv")], ids=lambda form: form.kind)
def test_a_page_of_long_values_is_cut_to_an_answer_and_continues(form: Form) -> None:
    world = roll_up()
    values = [f"{number:02d}".ljust(_BYTES, "x") for number in range(30)]
    world.write(*(reading(366 + number / 10, 1, kind=value) for number, value in enumerate(values)))
    rendered = render_answer(ask_listing(world, "kind"), form, encode_stream)
    assert count_body_bytes(rendered.body) <= 6_000_000
    assert rendered.answer.count == 19
    assert names_of(ask_listing(world, "kind", cursor=rendered.answer.next or "")) == values[19:]


def test_values_that_do_not_fit_into_memory_are_on_further_pages() -> None:
    """80 values of 300,000 characters are 24 million; 20 million are held, of which a page keeps 5 million."""
    world = roll_up()
    values = [f"{number:02d}".ljust(_BYTES, "x") for number in range(80)]
    world.write(*(reading(366 + number / 100, 1, kind=value) for number, value in enumerate(values)))
    page = ask_listing(world, "kind", limit="1000")
    assert (page.next is not None, 0 < page.count < 80) == (True, True)
    found = names_of(page)
    while page.next is not None:
        page = ask_listing(world, "kind", cursor=page.next, limit="1000")
        found += names_of(page)
    assert found == values
