"""Answers: what is quoted, what is kept, and what a cursor leads to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dray.cli.command_errors import CommandError, ObjectNotFound, WrongUsage
from dray.cli.mcp.answers import KEPT_DOCUMENTS, LIMIT_BYTES, NOTICE, Answers

LONG = ["x" * 1000] * 40


def envelope(text: str) -> Any:
    assert len(text) <= LIMIT_BYTES
    return json.loads(text)


def test_an_answer_quotes_its_document_and_notes() -> None:
    written = envelope(Answers().of({"a": 1}, ["not all could be read"]))
    quoted = {"answer": {"a": 1}, "notes": ["not all could be read"]}
    assert written == {"notice": NOTICE, "status": "ok", "quoted": quoted}


def test_an_error_quotes_its_message() -> None:
    written = envelope(Answers().of_error(ObjectNotFound("no pod x", "Look elsewhere.")))
    assert written["status"] == "not found"
    assert written["quoted"] == {"answer": {"message": "no pod x", "advice": "Look elsewhere."}}
    assert envelope(Answers().of_error(CommandError("x" * 50_000)))["quoted"]["more"]


def test_pages_are_of_the_document_as_it_was() -> None:
    answers = Answers()
    document = list(LONG)
    (cut,) = envelope(answers.of(document))["quoted"]["more"]
    document.clear()
    quoted = envelope(answers.more(cut["cursor"]))["quoted"]
    assert quoted["from"] == cut["shown"]
    assert quoted["answer"][0] == LONG[0]


def test_the_oldest_documents_are_forgotten() -> None:
    answers = Answers()
    (cut,) = envelope(answers.of(LONG))["quoted"]["more"]
    for _ in range(KEPT_DOCUMENTS - 1):
        answers.of(LONG)
    answers.of("short")
    answers.more(cut["cursor"])
    answers.of(LONG)
    with pytest.raises(WrongUsage, match="no longer kept"):
        answers.more(cut["cursor"])


@pytest.mark.parametrize(
    "cursor",
    ["", "1", "1:0", "1:0:0:0", "1:-1:0", "1:9:0", "1:0.0.0.0:0", "a:0:0", "1:0:-5", "1:0.40:1"],
)
def test_a_wrong_cursor_is_refused(cursor: str) -> None:
    answers = Answers()
    answers.of([*LONG, 5])
    with pytest.raises(WrongUsage, match="cursor"):
        answers.more(cursor)


def test_a_cursor_never_leads_to_itself() -> None:
    answers = Answers()
    (cut,) = envelope(answers.of([{"k" * 9000: 1}]))["quoted"]["more"]
    with pytest.raises(CommandError, match="does not fit"):
        answers.more(cut["cursor"])
