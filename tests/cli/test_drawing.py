"""The ladder over time as a picture, and as a table of days."""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from bill.timeline import Day
from cli.timeline import draw_days, draw_timeline

SVG = "{http://www.w3.org/2000/svg}"


def day(ahead: int, opened: int, closed: int, write: int) -> Day:
    return Day(datetime(2026, 6, 1, tzinfo=UTC), ahead, opened, 1, closed, write, 7, 2, 12.5)


LIFE = [day(2, 1, 0, 100), day(2, 1, 1, 50), day(2, 1, 3, 0), day(2, 1, 3, 25)]


def test_units_are_bars_and_tables_a_line() -> None:
    """Four days on 700 of 760 points; the highest bar and the most tables are 150 points high, from 180 on upwards."""
    picture = ET.fromstring(draw_timeline("s", LIFE))  # noqa: S314 - it was written here
    _, *bars = picture.findall(f"{SVG}rect")
    shown = [[bar.get(name) for name in ("x", "y", "width", "height")] for bar in bars]
    assert shown == [
        ["30.0", "30.0", "140.0", "150.0"],
        ["205.0", "105.0", "140.0", "75.0"],
        ["380.0", "180.0", "140.0", "0.0"],
        ["555.0", "142.5", "140.0", "37.5"],
    ]
    (line,) = picture.findall(f"{SVG}polyline")
    assert line.get("points") == "100.0,105.0 275.0,80.0 450.0,30.0 625.0,30.0"
    assert [text.text for text in picture.findall(f"{SVG}text")] == ["s: write units, up to 100", "tables, up to 6"]


def test_a_life_is_drawn_by_every_nth_day_and_the_last() -> None:
    grid = draw_days("s", LIFE, 2)
    cells = [list(column.cells) for column in grid.columns]
    assert cells[0] == ["0", "2", "3"]
    assert [own[0] for own in cells] == ["0", "3", "2", "1", "1", "0", "100", "7", "2", "12.50"]
    assert [str(column.header) for column in grid.columns] == [
        "day", "tables", "ahead", "open", "late", "closed", "write units", "read units", "infrequent", "$ a day",
    ]  # fmt: skip
