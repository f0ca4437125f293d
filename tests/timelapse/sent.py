"""The sent events, and the events that the API acknowledged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# Stream and id.
Name = tuple[str, str]


@dataclass
class Sending:
    """A sent event; ``sure`` once it was acknowledged. Otherwise it may be stored or not."""

    event: dict[str, Any]
    at: datetime
    sure: bool = False


@dataclass
class Sent:
    """All sent events, oldest first, and the refs of the acknowledged events."""

    sendings: dict[Name, list[Sending]] = field(default_factory=dict)
    refs: dict[Name, str] = field(default_factory=dict)
    refused: set[Name] = field(default_factory=set)

    def note(self, name: Name, event: dict[str, Any], at: datetime, *, sure: bool) -> None:
        """Note an attempt to send an event; a repeated attempt with the same content is the same sending."""
        sendings = self.sendings.setdefault(name, [])
        if not sendings or sendings[-1].event != event:
            sendings.append(Sending(event, at))
        sendings[-1].sure |= sure

    def promised(self, stream: str, start: str = "", end: str = "~") -> list[Name]:
        """The names of all acknowledged events in a range of time."""
        return [
            name
            for name, sendings in self.sendings.items()
            if name[0] == stream
            and any(sending.sure for sending in sendings)
            and start <= sendings[0].event["time"] < end
        ]

    def may_show(self, name: Name) -> list[dict[str, Any]]:
        """The allowed contents of an event: the last acknowledged content, or a later content without an answer."""
        sendings = self.sendings.get(name, [])
        last = max((place for place, sending in enumerate(sendings) if sending.sure), default=0)
        return [sending.event for sending in sendings[last:]]

    def differences(self, stream: str, found: list[dict[str, Any]], start: str = "", end: str = "~") -> list[str]:
        """The differences between the events of an answer and the acknowledged events; no event may come twice."""
        counts = Counter(event["id"] for event in found)
        problems = [f"{id} is there {count} times" for id, count in counts.items() if count > 1]
        problems += [f"{name} is missing" for name in self.promised(stream, start, end) if name[1] not in counts]
        for event in found:
            allowed = self.may_show((stream, event["id"]))
            shown = {name: event[name] for name in ("series", "time", "id", "data")}
            if shown not in allowed:
                problems.append(f"{event['id']} of {event['time']} is not what was sent last")
        return problems

    def version_problems(self, name: Name, versions: list[dict[str, Any]], *, kept: bool | None) -> list[str]:
        """The differences between the versions of an event in an answer, newest first, and the sent versions."""
        sendings = self.sendings[name]
        found = [version["data"]["n"] for version in versions]
        problems = []
        if len(set(found)) != len(found):
            problems.append(f"{name} has a version twice: {found}")
        if not set(found) <= {sending.event["data"]["n"] for sending in sendings}:
            problems.append(f"{name} has versions that were never sent: {found}")
        missing = {sending.event["data"]["n"] for sending in sendings if sending.sure} - set(found)
        if kept and missing:
            problems.append(f"{name} lacks versions {missing}")
        if kept is False and len(found) != 1:
            problems.append(f"{name} has {len(found)} versions in a period that keeps none")
        return problems
