"""Times that come together: the same texts, and the same refusals, as of times that come alone."""

from __future__ import annotations

import pytest

from tidetable.errors import InvalidTime
from tidetable.times import parse_stamps


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (
            ["2026-03-01T00:04:00Z", "2026-03-01T23:59:59Z"],
            ["2026-03-01T00:04:00.000000Z", "2026-03-01T23:59:59.000000Z"],
        ),
        (["2026-03-01T00:04:00.123Z"], ["2026-03-01T00:04:00.123000Z"]),
        (["2026-03-01T00:04:00.123456Z"], ["2026-03-01T00:04:00.123456Z"]),
        (["2026-03-01T00:04:00.123456+00:00"], ["2026-03-01T00:04:00.123456Z"]),
        (["2026-03-01T00:04:00.123456+02:00"], ["2026-02-28T22:04:00.123456Z"]),
        (
            ["2026-03-01T00:04:00Z", "2026-03-01T00:04:00.5Z"],
            ["2026-03-01T00:04:00.000000Z", "2026-03-01T00:04:00.500000Z"],
        ),
        (
            ["2026-03-01 00:04:00Z", "2026-03-01t00:04:00z"],
            ["2026-03-01T00:04:00.000000Z", "2026-03-01T00:04:00.000000Z"],
        ),
        ([1772323440000, "2026-03-01T00:04:00Z"], ["2026-03-01T00:04:00.000000Z", "2026-03-01T00:04:00.000000Z"]),
        (
            ["1970-01-01T00:00:00Z", "9998-12-30T23:59:59Z"],
            ["1970-01-01T00:00:00.000000Z", "9998-12-30T23:59:59.000000Z"],
        ),
    ],
)
def test_several_times_have_their_canonical_texts(sent: list[object], expected: list[str]) -> None:
    assert parse_stamps(sent) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "2026-02-29T00:04:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T00:04:60Z",
        "2026-W09-7T00:04:00Z",
        "2026-03-01T00.04:00Z",
        "2026-03-01T00:04:00,123Z",
        "2026-03-01T00:04:00 123Z",
        "2026-03-01T0004:00.1230Z",
        "1969-12-31T23:59:59Z",
        "9998-12-31T00:00:00Z",
        "\u0662026-03-01T00:04:00Z",
        "yesterday",
    ],
)
def test_of_several_times_the_wrong_one_is_refused(wrong: str) -> None:
    usual = "2026-03-01T00:04:00Z" if len(wrong) == 20 else "2026-03-01T00:04:00.123Z"
    for sent in ([wrong], [usual, wrong], [wrong, usual]):
        with pytest.raises(InvalidTime):
            parse_stamps(sent)
