"""A DynamoDB that is as strict as the service: it adds throttling, slow changes of tables, limits and faults to any
engine.

An engine stores the items: an emulator over HTTP, or a dictionary in memory. This package decides which requests the
service would refuse, how long changes take, and what requests cost. The caller supplies the clock. docs/inside/aws.md
lists the rules with their sources.
"""

from strict.clock import Clock, ManualClock, SystemClock
from strict.faults import Fault, Faults, Kind
from strict.rules import Rule
from strict.service import StrictDynamo
from strict.timings import Timings

__all__ = [
    "Clock",
    "Fault",
    "Faults",
    "Kind",
    "ManualClock",
    "Rule",
    "StrictDynamo",
    "SystemClock",
    "Timings",
]
