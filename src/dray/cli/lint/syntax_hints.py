"""Corrections of files that are not YAML: tabs, indentation, brackets, quotation marks, colons.

Each candidate is a whole text that parses; those with the fewest faults come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from dray.api.features import Features
from dray.cli.lint import source_documents
from dray.cli.lint.checks import object_checks
from dray.cli.lint.findings import Finding, Suggestion
from dray.cli.lint.rules import Severity
from dray.cli.lint.source_documents import NotYaml

_TAB_WIDTHS = (2, 4, 8)
_NEAR = 6
_CLOSING = {"[": "]", "{": "}"}
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:''|[^'])*'")
_PAIR = re.compile(r"^(\s*(?:- +)*[\w./-]+: +)(\S.*?)(\s+#.*|\s*)$")
_TEMPLATE = re.compile(r"\{\{.*\}\}|\{%.*%\}")
_KEY = re.compile(r"^\s*(?:- +)*[\w./-]+:(?:\s|$)|^\s*-\s")


class _Candidate(NamedTuple):
    text: str
    advice: str
    is_clear: bool = False
    """Whether it is right even if other faults are left."""


def finding(file: str, text: str, error: NotYaml, features: Features) -> Finding:
    """Return the finding about a file that is not YAML."""
    lines = text.split("\n")
    line = min(error.line, len(lines))
    tab = _first_tab(lines)
    if tab is not None and lines[tab][: len(lines[tab]) - len(lines[tab].lstrip())].count("\t"):
        line, problem = tab + 1, "the line is indented with a tab; YAML allows spaces only"
        column = lines[tab].index("\t") + 1
    else:
        problem = error.problem
        column = len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1
    advice = "Check indentation, brackets and quotation marks of this line and the one above."
    suggestions = _suggestions(file, text, error.line, features)
    if _TEMPLATE.search(text):
        advice = "The file is a template: render it first, and check the result."
        suggestions = iter(())
    return Finding(
        file,
        line,
        column,
        Severity.ERROR,
        "not-yaml",
        f"not YAML: {problem}",
        advice,
        suggestions,
    )


def _first_tab(lines: list[str]) -> int | None:
    return next((number for number, line in enumerate(lines) if re.match(r" *\t", line)), None)


def _suggestions(file: str, text: str, line: int, features: Features) -> Iterator[Suggestion]:
    ranked: list[tuple[int, int, _Candidate]] = []
    for make in (_separators, _tabs, _brackets, _quotes, _colons, _indentation):
        for candidate in make(text, line):
            faults = _faults(file, candidate.text, features)
            if faults is not None and candidate.text != text:
                ranked.append((faults, len(ranked), candidate))
    for faults, _, candidate in sorted(ranked)[:1]:
        is_clear = candidate.is_clear or not faults
        yield Suggestion(candidate.advice, text=candidate.text, is_correction=is_clear)


def _faults(file: str, text: str, features: Features) -> int | None:
    """Return the number of errors in a text; None if it is not YAML."""
    try:
        documents = list(source_documents.documents(file, text))
    except NotYaml:
        return None
    return sum(
        len([found for found in object_checks.check(document, features) if _is_error(found)])
        for document in documents
    )


def _is_error(found: Finding) -> bool:
    return found.severity is Severity.ERROR


def _separators(text: str, line: int) -> Iterator[_Candidate]:
    """Separate objects by three hyphens."""
    new = re.sub(r"(?m)^(?:-{1,2}|-{4,})[ \t]*$", "---", text)
    if new != text:
        yield _Candidate(new, "Separate objects with a line of three hyphens: ---", is_clear=True)


def _tabs(text: str, line: int) -> Iterator[_Candidate]:
    lines = text.split("\n")
    if _first_tab(lines) is None:
        return
    for width in _TAB_WIDTHS:
        replaced = [_without_tabs(item, width) for item in lines]
        advice = f"Indent with {width} spaces instead of each tab."
        yield _Candidate("\n".join(replaced), advice, is_clear=True)
    number = _first_tab(lines)
    for indent in _indents(lines, number or 0):
        changed = [_reindented(item, indent) if re.match(r" *\t", item) else item for item in lines]
        yield _Candidate("\n".join(changed), f"Indent with {indent} spaces instead of tabs.")


def _without_tabs(line: str, width: int) -> str:
    rest = line.lstrip(" \t")
    return line[: len(line) - len(rest)].replace("\t", " " * width) + rest


def _indents(lines: list[str], number: int) -> list[int]:
    """Return the indentations of the lines near one, and those that a list item would add."""
    near = [line for line in lines[max(number - _NEAR, 0) : number + _NEAR] if line.strip()]
    found: set[int] = set()
    for line in near:
        own = len(line) - len(line.lstrip(" "))
        found |= {own, own + 2} if not line.lstrip().startswith("- ") else {own, own + 2, own + 4}
    return sorted(found)


def _reindented(line: str, indent: int) -> str:
    return " " * indent + line.lstrip(" \t")


def _brackets(text: str, line: int) -> Iterator[_Candidate]:
    """Close flow collections at the end of the line before the next key."""
    lines = text.split("\n")
    stack: list[str] = []
    for number, item in enumerate(lines):
        if item.startswith("---"):
            stack = []
        plain = _QUOTED.sub(lambda found: "_" * len(found[0]), item).partition(" #")[0]
        for character in plain:
            if character in _CLOSING:
                stack.append(character)
            elif stack and character == _CLOSING[stack[-1]]:
                stack.pop()
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if stack and (_KEY.match(following) or not following.strip()):
            closers = "".join(_CLOSING[bracket] for bracket in reversed(stack))
            code, space, comment = item.partition(" #")
            plain = code.rstrip()
            closed = f"{plain}{closers}{code[len(plain) :]}{space}{comment}"
            changed = [*lines[:number], closed, *lines[number + 1 :]]
            yield _Candidate(
                "\n".join(changed), f"Close it with {closers} at the end of line {number + 1}."
            )
            stack = []


def _quotes(text: str, line: int) -> Iterator[_Candidate]:
    """Put the value of a line in quotation marks."""
    lines = text.split("\n")
    for number in (line - 1, line - 2):
        match = _PAIR.match(lines[number]) if 0 <= number < len(lines) else None
        if match is None:
            continue
        value, comment = match[2], match[3]
        escaped = value.replace("'", "''")
        changed = [*lines[:number], f"{match[1]}'{escaped}'{comment}", *lines[number + 1 :]]
        advice = f"Put the value in quotation marks: {match[1].strip()} '{escaped}'"
        yield _Candidate("\n".join(changed), advice)
        for mark in "\"'":
            if value.count(mark) % 2:
                closed = f"{match[1]}{value}{mark}{comment}"
                changed = [*lines[:number], closed, *lines[number + 1 :]]
                yield _Candidate(
                    "\n".join(changed), f"Add the closing {mark} in line {number + 1}."
                )


def _colons(text: str, line: int) -> Iterator[_Candidate]:
    """Write a space after the colon of a key, or the colon itself."""
    lines = text.split("\n")
    for number in (line - 1, line - 2, line - 3):
        if not 0 <= number < len(lines):
            continue
        spaced = re.sub(r"^(\s*(?:- +)*[A-Za-z]\w*):(?=\S)", r"\1: ", lines[number])
        added = re.sub(r"^(\s*(?:- +)*[A-Za-z]\w*) *$", r"\1:", lines[number])
        pair = re.sub(r"^(\s*(?:- +)*[A-Za-z]\w*) +(\S+)$", r"\1: \2", lines[number])
        for new, words in (
            (spaced, "Write a space after the colon"),
            (added, "Write a colon after the key"),
            (pair, "Write a colon after the key"),
        ):
            if new != lines[number]:
                changed = [*lines[:number], new, *lines[number + 1 :]]
                yield _Candidate("\n".join(changed), f"{words}: {new.strip()}")


def _indentation(text: str, line: int) -> Iterator[_Candidate]:
    """Indent one line like those near it."""
    lines = text.split("\n")
    for number in (line - 1, line - 2):
        if not 0 <= number < len(lines) or not lines[number].strip():
            continue
        for indent in _indents(lines, number):
            new = _reindented(lines[number], indent)
            changed = [*lines[:number], new, *lines[number + 1 :]]
            yield _Candidate("\n".join(changed), f"Indent line {number + 1} with {indent} spaces.")
