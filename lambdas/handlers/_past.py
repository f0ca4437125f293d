"""Answers of pages of closed time: they carry an ETag, and the process keeps them for some seconds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from sys import getsizeof
from typing import NamedTuple

from msgspec.structs import replace

import wiring
from handlers._http import QueryRequest, Response
from handlers._observe import report_query
from tidetable.query import Answer, AnswerForm, Cost, Selection
from tidetable.query.past import KeptPages, PastQuestion, compute_digest

# A browser may keep the page, but must ask before it shows it: what is stored can change, and can be erased. A cache
# between does not know that an answer belongs to a key, so it must not keep it.
_CACHING = {"Cache-Control": "private, no-cache"}
# The bytes of a kept page besides the texts of its body and headers.
_PAGE_BYTES = 3_000


class PastPage(NamedTuple):
    """A complete page of closed time: its answer without the headers of its cost, its tag, and the number of its rows."""

    response: Response
    tag: str
    shown: int

    @property
    def size(self) -> int:
        """The bytes of the page in memory."""
        return getsizeof(self.response["body"]) + sum(map(getsizeof, self.response["headers"].values())) + _PAGE_BYTES


class Past(NamedTuple):
    """A request for closed time. ``tags`` are those of the pages that the client has.

    ``report`` reports the cost and the number of shown rows; ``show_cost`` makes the headers of a cost.
    """

    question: PastQuestion
    pages: KeptPages[PastPage]
    tags: Sequence[str]
    now: datetime
    show_cost: Callable[[Cost], Mapping[str, str]]
    report: Callable[[Cost, int], None]

    def find_known(self) -> Response | None:
        """Find the answer without reading an event: a kept page, or 304 if the client's page still holds."""
        kept = self.pages.find(self.question.identity, self.now)
        if kept is not None:
            page, age = kept
            self.report(Cost(), page.shown)
            return self._answer(page, {**self.show_cost(Cost()), "Age": str(age // timedelta(seconds=1))})
        tag = self.question.find_valid(self.tags)
        if tag is None:
            return None
        self.report(Cost(), 0)
        return _make_valid(tag, self.show_cost(Cost()))

    def keep(self, response: Response, answer: Answer) -> Response:
        """Keep an answer that was read now, and give it its ETag. An incomplete answer stays as it is."""
        if answer.losses:
            return response
        costs, question = self.show_cost(answer.cost), self.question
        facts = {name: value for name, value in response["headers"].items() if name not in costs}
        # The content alone may be that of a key with other rights.
        tag = question.make_tag(answer) or compute_digest(question.identity, facts, body=response["body"])
        page = PastPage({**response, "headers": {**facts, **_name_tag(tag)}}, tag, answer.count)
        self.pages.keep(question.identity, page, page.size, self.now)
        return self._answer(page, costs)

    def _answer(self, page: PastPage, headers: Mapping[str, str]) -> Response:
        """Answer a page, or 304 if the client has it."""
        if page.tag in self.tags:
            return _make_valid(page.tag, headers)
        return {**page.response, "headers": {**page.response["headers"], **headers}}


def begin_past(request: QueryRequest, query: Selection, form: AnswerForm, now: datetime, compared: str) -> Past:
    """Begin to answer a request for closed time. ``compared`` are its conditions, for the report."""
    policy, rights = request.stream, replace(request.access, key_id="")

    def report(cost: Cost, shown: int) -> None:
        report_query(request.route, policy.name, cost, shown=shown, conditions=compared)

    question = PastQuestion.make(query, form, policy, request.reader, rights)
    tags = re.findall(r'"([^"]*)"', request.known)
    return Past(question, wiring.get_pipeline().kept_pages, tags, now, request.show_cost, report)


def _name_tag(tag: str) -> dict[str, str]:
    """Make the headers of a page with this tag.

    The ETag is weak: the gateway compresses bodies, and a later answer may divide the same events into other pages.
    """
    return {**_CACHING, "ETag": f'W/"{tag}"'}


def _make_valid(tag: str, headers: Mapping[str, str]) -> Response:
    """Answer that a page still holds, without its body."""
    return {"statusCode": 304, "headers": {**_name_tag(tag), **headers}, "body": "", "isBase64Encoded": False}
