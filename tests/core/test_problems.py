"""The one mapping from errors to the answers of the API."""

import pytest

from aws.dynamodb.codes import find_outage
from tidetable.errors import (
    ArchiveBusy,
    ArchiveFailed,
    NotReady,
    Outage,
    StoreUnavailable,
    TableMissing,
    TableRefused,
    TidetableError,
    ValueMissing,
)
from tidetable.problems import Problem, make_problem, refuse_request, refuse_unknown_stream

DETAILS = [
    (
        ArchiveBusy("secret"),
        (
            "an archived period of the range did not answer in time: ask again, as its reader may just have started; "
            "if that does not help, narrow from and to"
        ),
    ),
    (
        ArchiveFailed("secret"),
        (
            "an archived period of the range could not be read: ask again; if that does not help, query the range before and "
            "after it, which explain=true shows, and tell the operator"
        ),
    ),
    (
        StoreUnavailable(Outage.NO_SECRET, "secret"),
        "the stage is new, and its first run has not made the secret of cursors: ask again in some minutes",
    ),
    (
        StoreUnavailable(Outage.NO_ANSWER, "secret"),
        "DynamoDB did not answer in time: ask again; if that does not help, narrow from and to, or lower limit",
    ),
    *(
        (
            StoreUnavailable(find_outage(code), "secret", code),
            (
                "DynamoDB throttled the reads of this query: ask again in some seconds; a shorter range, a lower limit or an "
                "index reads less, and a table that is often throttled needs more read units"
            ),
        )
        for code in ("ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded")
    ),
    *(
        (error, "the query could not be answered now; ask again")
        for error in (
            StoreUnavailable(Outage.OTHER, "secret", "InternalServerError"),
            TableMissing("secret"),
            TableRefused("secret", transient=True),
            ValueMissing("secret"),
            RuntimeError("secret"),
        )
    ),
]


@pytest.mark.parametrize(("error", "detail"), DETAILS, ids=[repr(error) for error, _ in DETAILS])
def test_a_query_that_fails_is_answered_with_503_and_what_to_do(error: Exception, detail: str) -> None:
    assert make_problem(error, "query") == Problem(503, "unavailable", detail, headers={"Retry-After": "2"})


@pytest.mark.parametrize(
    "error", [StoreUnavailable(Outage.NO_ANSWER, "secret"), NotReady("secret"), RuntimeError("secret")]
)
def test_events_that_fail_are_to_be_sent_again_whatever_failed(error: Exception) -> None:
    detail = "the events may not be stored; send the whole request again, which is harmless"
    assert make_problem(error, "ingest") == Problem(503, "unavailable", detail, headers={"Retry-After": "5"})


def test_a_refused_request_keeps_its_own_status_code_and_detail() -> None:
    error = refuse_request(413, "too_large", "send less", limit=7)
    for problem in (make_problem(error, "ingest"), make_problem(error, "query")):
        assert problem == Problem(413, "too_large", "send less", {"limit": 7})


def test_the_refusal_of_a_table_belongs_to_the_projects_family_of_errors() -> None:
    refused = TableRefused("LimitExceededException: too many", transient=True, crowded=True)
    assert isinstance(refused, TidetableError)
    assert (str(refused), refused.transient, refused.crowded) == ("LimitExceededException: too many", True, True)


def test_a_problem_is_written_as_rfc_9457_says() -> None:
    assert Problem(404, "unknown_event", "it is not there", {"limit": 7}, {"Retry-After": "2"}).document() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "code": "unknown_event",
        "detail": "it is not there",
        "limit": 7,
    }


def test_a_stream_that_is_not_there_is_named_up_to_64_characters_beside_those_that_are() -> None:
    problem = refuse_unknown_stream("x" * 65, {"a": 1, "b": 2}).problem
    assert (problem.status, problem.code) == (404, "unknown_stream")
    assert problem.detail == f"there is no stream '{'x' * 64}'; there are: a, b"
