"""Errors in an expression, each with its position, and their text as cel-go prints it.

Parser and checker report issues in the order they find them; sorting and cutting off is done here
(cel-go common/errors.go and common/error.go, ToDisplayString).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_REPORTED = 100
MAX_SNIPPET_BYTES = 16384


class Issue(NamedTuple):
    """`position` counts code points from the start of the text; None is no place at all."""

    position: int | None
    message: str


class CompilationFailed(Exception):
    """The text is no valid expression of its environment. `str()` is what cel-go prints."""

    def __init__(self, text: str, issues: Sequence[Issue]) -> None:
        super().__init__(text, issues)
        self.text = text
        self.issues = list(issues)

    def __str__(self) -> str:
        return render(self.text, self.issues)


def render(text: str, issues: Sequence[Issue]) -> str:
    """Return the reported issues sorted by place, one paragraph each."""
    reported = sorted(issues[:MAX_REPORTED], key=_sort_key)
    paragraphs = [_render_one(text, issue) for issue in reported]
    if len(issues) > MAX_REPORTED:
        paragraphs.append(f"{len(issues) - MAX_REPORTED} more errors were truncated")
    return "\n".join(paragraphs)


def _sort_key(issue: Issue) -> int:
    return -1 if issue.position is None else issue.position


def _render_one(text: str, issue: Issue) -> str:
    if issue.position is None:
        return f"ERROR: <input>:-1:0: {issue.message}"
    line_number = text.count("\n", 0, issue.position) + 1
    line_start = text.rfind("\n", 0, issue.position) + 1
    column = issue.position - line_start
    heading = f"ERROR: <input>:{line_number}:{column + 1}: {issue.message}"
    if not text:
        return heading
    line = text[line_start:].split("\n", 1)[0]
    return heading + _snippet(line, column)


def _snippet(line: str, column: int) -> str:
    if len(line.encode("utf-8", "surrogatepass")) > MAX_SNIPPET_BYTES:
        return ""
    shown = line.replace("\t", " ")
    dots = "".join("." if character.isascii() else "．" for character in line[:column])
    marker = "^" if line[column : column + 1].isascii() else "＾"
    return f"\n | {shown}\n | {dots}{marker}"
