"""Objects under the prefix of saved messages that are no saved messages."""

from tests.worlds.saved import list_saved, queue_events, stage_of
from tidetable.layout import Key
from tidetable.ports import Blob


def test_a_foreign_object_is_named_and_stays_and_stops_nothing() -> None:
    stage = stage_of()
    for key in ("saved/0/nothing", "saved/0000000000001/stream=s/events=1/damaged"):
        stage.values.put(Blob(key, b"damaged", Key("", "")))
    queue_events(stage, "1")
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    run = stage.drain_saved()
    assert (run.events, len(run.reasons), len(list_saved(stage))) == (1, 2, 2)
    assert run.reasons[0] == "saved/0/nothing is not the key of a saved message"
    assert run.reasons[1].startswith("saved/0000000000001/stream=s/events=1/damaged cannot be read")
