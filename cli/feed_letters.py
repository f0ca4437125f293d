"""Dead letters of feeds: count them by target and reason, and send them to their targets again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from aws.feed_targets import FEED, TARGET
from aws.messages import REASON
from cli.letters import receive_letters, release_letters

# A function that passes the changes of a letter to the feed's function. Arguments: stream, target, changes as texts.
Redeliver = Callable[[str, str, list[str]], None]


@dataclass(slots=True)
class Letters:
    """The number of letters, and the number of changes by stream, target and reason."""

    messages: int = 0
    changes: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def list_rows(self) -> list[dict[str, Any]]:
        """Return the counts, in order."""
        names = ("feed", "target", "reason")
        return [{**dict(zip(names, key, strict=True)), "changes": count} for key, count in sorted(self.changes.items())]


@dataclass(slots=True)
class Redelivered:
    """The number of changes that were sent again, and the reasons why other letters stay in the queue."""

    changes: int = 0
    failures: list[str] = field(default_factory=list)


def summarize_changes(client: Any, url: str) -> Letters:
    """Count the changes in the queue; the messages stay in it."""
    letters = Letters()
    receipts = []
    for message in receive_letters(client, url):
        letters.messages += 1
        letters.changes[
            _read_attribute(message, FEED), _read_attribute(message, TARGET), _read_attribute(message, REASON)
        ] += len(_read_changes(message))
        receipts.append(message["ReceiptHandle"])
    release_letters(client, url, receipts)
    return letters


def redeliver_changes(
    client: Any, url: str, redeliver: Redeliver, maximum: int, known_failures: tuple[type[Exception], ...]
) -> Redelivered:
    """Send at most ``maximum`` letters again. Delete a letter only after its target has accepted all its changes."""
    result = Redelivered()
    left = []
    for message in islice(receive_letters(client, url), maximum):
        changes = _read_changes(message)
        try:
            redeliver(_read_attribute(message, FEED), _read_attribute(message, TARGET), changes)
        except known_failures as error:
            result.failures.append(str(error))
            left.append(message["ReceiptHandle"])
            continue
        client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        result.changes += len(changes)
    release_letters(client, url, left)
    return result


def _read_attribute(message: Any, name: str) -> str:
    return str(message.get("MessageAttributes", {}).get(name, {}).get("StringValue", ""))


def _read_changes(message: Any) -> list[str]:
    # Not splitlines(): it also splits at characters that JSON need not escape, such as U+2028.
    return str(message["Body"]).split("\n")
