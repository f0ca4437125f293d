"""Many keys, used evenly by many processes: how many requests read the catalog, and where its reads arrive."""

from collections import Counter
from datetime import timedelta
from random import Random

import pytest

from aws.dynamodb.credential_items import list_record_keys
from tests.credentials.records import NOW, record
from tidetable.credentials import CredentialRecord, CredentialRing

KEPT = record("tt_0123456789_abcdefghijklmnopqrstuvwxyz012345")


class Reads:
    """The reads of a process, by partition. A key of the slot ``ad``, which four of 200 keys have, is changed now and then."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.changes = 0

    def find(self, id: str) -> CredentialRecord:
        self.counts[list_record_keys(id)[0]["pk"]] += 1
        return KEPT

    def count_changes(self) -> dict[str, int]:
        self.counts["keys#changes"] += 1
        return {"ad": self.changes}

    def make_ring(self) -> CredentialRing:
        return CredentialRing(self.find, self.count_changes)


@pytest.mark.parametrize(("changing", "reads"), [(False, 261), (True, 343)])
def test_few_requests_of_an_hour_read_a_key_that_each_process_sees_every_100_seconds(
    *, changing: bool, reads: int
) -> None:
    """A fiftieth of 10,000 keys at 100 requests per second of a process.

    Without changes these are each key, the first one again, and 60 counts of changes. A change of a key in each minute
    costs reads of the four keys of its slot.
    """
    random, read = Random(7), Reads()
    ring, requests = read.make_ring(), 7_200
    for number in range(requests):
        read.changes = number // 120 if changing else 0
        ring.find(f"{random.randrange(200):010}", NOW + timedelta(seconds=number / 2))
    assert (read.counts["keys#changes"], read.counts.total()) == (60, reads)
    assert reads <= requests / 10


def test_processes_that_all_begin_at_once_read_no_partition_too_often() -> None:
    """100 processes, a tenth of 10,000 requests per second: no partition may get a tenth of 1,000 reads."""
    random, reads = Random(7), Reads()
    rings = [reads.make_ring() for _ in range(100)]
    for number in range(1_000):
        random.choice(rings).find(f"{random.randrange(10_000):010}", NOW + timedelta(seconds=number / 1_000))
    keys = {partition: count for partition, count in reads.counts.items() if partition != "keys#changes"}
    assert (len(keys), sum(keys.values())) == (16, 1_000)
    assert max(keys.values()) < 100
    assert reads.counts["keys#changes"] <= 100
