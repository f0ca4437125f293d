"""A stream's policy is recorded before its tables are made: later nobody else knows how long they are kept."""

from collections.abc import Sequence

import pytest

from tests.lifecycle.world import World, configuration
from tidetable.catalog import RecordedPolicy, State
from tidetable.errors import RemovalFailed
from tidetable.lifecycle.removal import remove


def test_no_table_is_made_of_a_new_stream_whose_policy_could_not_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a deployment failed then, and took the stream back, nobody would archive or delete such tables."""
    world = World()

    def refuse(_: RecordedPolicy) -> None:
        raise ConnectionError("try later")

    with monkeypatch.context() as patch:
        patch.setattr(world.catalog, "put_policy", refuse)
        report = world.run()
        assert report.troubles == [
            "the policy of s could not be recorded, so no table of it is made yet: ConnectionError: try later"
        ]
        assert world.states() == {}
    assert world.run().healthy
    assert set(world.states().values()) == {State.OPEN}
    # A stream with a recorded policy gets its next tables all the same.
    count = len(world.states())
    world.config = configuration(retention=6)
    with monkeypatch.context() as patch:
        patch.setattr(world.catalog, "put_policy", refuse)
        report = world.after(days=1)
        assert report.troubles == ["the policy of s could not be recorded: ConnectionError: try later"]
        assert len(world.states()) == count + 1


def test_a_stack_is_not_destroyed_while_the_policies_of_removed_streams_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A removed stream may have tables that are to be deleted, too. Later no stack would be left to delete them."""
    world = World()
    world.run()
    tables = set(world.levels())

    def fail() -> Sequence[RecordedPolicy]:
        raise ConnectionError("try later")

    monkeypatch.setattr(world.catalog, "list_policies", fail)
    with pytest.raises(RemovalFailed) as refused:
        remove(world.begin_run("owner", lambda: 1000.0))
    assert str(refused.value) == (
        "the recorded policies could not be read: ConnectionError: try later. Delete the stack again"
    )
    assert set(world.levels()) == tables
