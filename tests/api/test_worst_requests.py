"""The worst requests that the gateway lets through: each gets its answer, in the memory that its function has.

The memory is measured in processes of their own (tests/worlds/worst.py). The seconds are not compared, because they
depend on the load; a process that needs 90 of its own is ended, and its case fails.
"""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.worlds.configs import ROOT
from tests.worlds.worst import CASES

# The memory of the functions in megabytes, without the 150 that a function has before its first request.
INGEST, DOORS, QUERY, REFRESHER = 512 - 150, 1024 - 150, 1024 - 150, 1769 - 150
TOO_LONG_ROWS = "422 too_much: rows that belong into one page are larger than an answer may be in this format"
# For each case: the memory of its function, and the beginning of its outcome.
EXPECTED = {
    "top_of_a_thousand_groups_in_every_second": (QUERY, "422 too_much: 86400000 rows, more than 10000; ask for fewer"),
    "a_group_with_a_long_text_in_every_second": (QUERY, "422 too_much: with fill=previous, or with fill and by"),
    "a_bucket_with_long_texts_and_names": (REFRESHER, "5001 cells, over False"),
    "the_top_group_with_a_long_text_in_every_second": (QUERY, "422 too_much: the values of by, repeated in each row"),
    "many_groups_with_long_texts": (QUERY, "422 too_many_groups: the values of by have more than 20000000"),
    "csv_of_events_with_different_fields": (QUERY, "200 238 rows, next True"),
    "flat_json_of_events_with_different_fields": (QUERY, "200 6671 rows, next True"),
    "arrow_of_events_with_different_fields": (QUERY, "200 6800 rows, next True"),
    "flat_json_of_a_long_path": (QUERY, TOO_LONG_ROWS),
    "csv_of_a_long_path": (QUERY, TOO_LONG_ROWS),
    "a_number_of_four_million_digits": (INGEST, "422 all_refused: data.state is a number of more than 400 characters"),
    "a_number_of_a_thousand_million_digits_in_an_index": (INGEST, "422 all_refused: data.state lies outside 1E-130"),
    "a_whole_number_of_four_million_digits": (INGEST, "422 all_refused: this event cannot be read: Integer"),
    "a_million_empty_lists": (INGEST, "422 all_refused: the event takes"),
    "a_million_texts_of_one_character": (INGEST, "422 all_refused: the event takes"),
    "a_million_empty_objects_as_events": (INGEST, "413 too_many_events"),
    "a_line_of_four_hundred_thousand_tags": (DOORS, "400 0 events"),
    "lines_of_all_tags_that_a_line_may_have": (DOORS, "204 1 events"),
    "a_line_of_a_million_fields": (DOORS, "400 0 events"),
    "four_million_ends_of_lines": (DOORS, "204 1 events"),
    "json_of_a_million_empty_points": (DOORS, "413 0 events"),
    "json_of_a_million_empty_metrics": (DOORS, "200 0 events"),
    "json_of_a_million_buckets": (DOORS, "200 0 events"),
    "json_of_a_million_empty_attributes": (DOORS, "200 0 events"),
    "json_of_a_million_empty_values": (DOORS, "200 0 events"),
    "protobuf_of_a_million_buckets": (DOORS, "413 0 events"),
    "a_batch_of_a_million_empty_events": (DOORS, "413 0 events"),
    "records_of_empty_objects": (DOORS, "400 0 events"),
    "a_record_of_a_million_lines": (DOORS, "400 0 events"),
}


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, Any]]:
    paths = os.pathsep.join(str(ROOT / path) for path in ("lambdas", ".", "clients/python/src"))
    names = {"TIDETABLE_STAGE": "t", "POWERTOOLS_METRICS_NAMESPACE": "t", "POWERTOOLS_METRICS_DISABLED": "true"}
    command = [sys.executable, "-m", "tests.worlds.worst"]
    environment = {**os.environ, **names, "PYTHONPATH": paths}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line for line in lines}


def test_each_case_is_compared() -> None:
    assert EXPECTED.keys() == CASES.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_worst_request_is_answered_in_the_memory_of_its_function(
    measured: dict[str, dict[str, Any]], name: str
) -> None:
    memory, outcome = EXPECTED[name]
    assert measured[name]["outcome"].startswith(outcome)
    assert measured[name]["megabytes"] < memory
