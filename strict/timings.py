"""How long the service takes for changes of a table."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. Those of ``capacity``, ``to_provisioned`` and ``to_on_demand`` were measured on the service by others; the
    rest is unpublished, and chosen so that whoever does not wait is found out.
    """

    create: float = 6.0
    delete: float = 5.0
    capacity: float = 2.0
    to_provisioned: float = 60.0
    to_on_demand: float = 42.0
    table_class: float = 30.0
    protection: float = 1.0
    warm: float = 30.0
    stream: float = 5.0
    encryption: float = 30.0
    index: float = 60.0
    # How long a table that is being deleted still answers.
    linger: float = 1.0

    def scaled(self, factor: float) -> Timings:
        """The same in fast motion, for a clock that nobody moves."""
        return Timings(*(getattr(self, field.name) * factor for field in fields(self)))
