"""kubectl's dialect of JSONPath as a tree: text, paths in braces, and `{range}` … `{end}`.

The grammar is that of client-go, util/jsonpath/parser.go, quirks included: a filter compares one
path with one constant, a backslash takes a dot into a name, quotes hold text to print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dray.cli.command_errors import JsonPathError


class FieldStep(NamedTuple):
    name: str


class Wildcard(NamedTuple):
    pass


class Recursive(NamedTuple):
    pass


class Slice(NamedTuple):
    """`[start:stop:step]`. `is_single` is one index, for which -1 is the last item."""

    start: int | None
    stop: int | None
    step: int | None
    is_single: bool


class Constant(NamedTuple):
    value: str | int | float | bool


class Filter(NamedTuple):
    """`[?(left operator right)]`. Without an operator, the left side must exist."""

    left: Path
    operator: str
    right: Path


class Union(NamedTuple):
    members: tuple[Path, ...]


Step = FieldStep | Wildcard | Recursive | Slice | Constant | Filter | Union
Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RangePart:
    """Parts that are printed once for each value of the path."""

    path: Path
    parts: tuple[Part, ...]


Part = Path | RangePart

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_RANGE, _END = "range", "end"


class _Action(NamedTuple):
    """The content of one pair of braces."""

    keyword: str
    path: Path


def parse(template: str) -> tuple[Part, ...]:
    """Return the parts of a template. Raises JsonPathError."""
    actions = list(_actions(template))
    parts, rest = _group(actions, 0, inside=False)
    assert rest == len(actions)
    return parts


def _group(actions: list[_Action], at: int, *, inside: bool) -> tuple[tuple[Part, ...], int]:
    """Return the parts up to the end of this range, and the index after it."""
    parts: list[Part] = []
    while at < len(actions):
        action = actions[at]
        at += 1
        if action.keyword == _RANGE:
            inner, at = _group(actions, at, inside=True)
            parts.append(RangePart(action.path, inner))
        elif action.keyword == _END:
            if not inside:
                raise JsonPathError("not in range, nothing to end")
            return tuple(parts), at
        else:
            parts.append(action.path)
    return tuple(parts), at


def _actions(template: str) -> Iterator[_Action]:
    at = 0
    while at < len(template):
        opening = template.find("{", at)
        if opening < 0:
            opening = len(template)
        if opening > at:
            yield _Action("", (Constant(template[at:opening]),))
        if opening == len(template):
            return
        scanner = _Scanner(template, opening + 1)
        yield scanner.action()
        at = scanner.at


def _path(text: str) -> Path:
    return _Scanner(text + "}", 0).action().path


class _Scanner:
    """Reads one action, from its opening brace to the closing one."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at
        self._steps: list[Step] = []
        self._keyword = ""

    def action(self) -> _Action:
        while not self._text.startswith("}", self.at):
            self._step()
        self.at += 1
        return _Action(self._keyword, tuple(self._steps))

    def _step(self) -> None:
        character = self._text[self.at : self.at + 1]
        if self._text.startswith("[?(", self.at):
            self._filter()
        elif self._text.startswith("..", self.at):
            self._recursive()
        elif character in ("", "\r", "\n"):
            raise JsonPathError("unclosed action")
        elif character in " @$":
            self.at += 1
        elif character == "[":
            self._brackets()
        elif character in "\"'":
            self._quoted(character)
        elif character == ".":
            self.at += 1
            self._field()
        elif character in "+-" or character.isdigit():
            self._number()
        elif character == "_" or character.isalpha():
            self._identifier()
        else:
            raise JsonPathError(f"unrecognized character in action: {character!r}")

    def _take(self, end: int) -> str:
        taken = self._text[self.at : end]
        self.at = end
        return taken

    def _identifier(self) -> None:
        end = self.at
        while end < len(self._text) and self._text[end] not in _TERMINATORS:
            end += 1
        word = self._take(end)
        if word in ("true", "false"):
            self._steps.append(Constant(word == "true"))
        elif word in (_RANGE, _END):
            self._keyword = word
        else:
            raise JsonPathError(f"unrecognized identifier {word}")

    def _field(self) -> None:
        end = self.at
        while end < len(self._text) and self._text[end] not in _TERMINATORS:
            end += 2 if self._text[end] == "\\" else 1
        name = self._take(min(end, len(self._text)))
        self._steps.append(Wildcard() if name == "*" else FieldStep(name.replace("\\", "")))

    def _recursive(self) -> None:
        if self._steps and isinstance(self._steps[-1], Recursive):
            raise JsonPathError("invalid multiple recursive descent")
        self.at += 2
        self._steps.append(Recursive())
        following = self._text[self.at : self.at + 1]
        if following == "_" or following.isalnum():
            self._field()

    def _number(self) -> None:
        match = re.compile(r"[+-]?[.\d]*").match(self._text, self.at)
        assert match
        text = self._take(match.end())
        for convert in (int, float):
            try:
                self._steps.append(Constant(convert(text)))
                return
            except ValueError:
                continue
        raise JsonPathError(f"cannot parse number {text}")

    def _quoted(self, quote: str) -> None:
        end = self.at + 1
        while True:
            end = self._text.find(quote, end)
            if end < 0:
                raise JsonPathError("unterminated quoted string")
            if self._text[end - 1] != "\\":
                break
            end += 1
        self._steps.append(Constant(_unquoted(self._take(end + 1))))

    def _brackets(self) -> None:
        end = self._text.find("]", self.at)
        if end < 0:
            raise JsonPathError("unterminated array")
        inside = self._take(end + 1)[1:-1]
        if "," in inside:
            members = (_path(f"[{part.strip(' ')}]") for part in inside.split(","))
            self._steps.append(Union(tuple(members)))
        elif len(inside) > 1 and inside[0] == inside[-1] == "'" and "'" not in inside[1:-1]:
            self._steps += _path(f".{inside[1:-1]}")
        else:
            self._steps.append(_slice(inside))

    def _filter(self) -> None:
        start = self.at + len("[?(")
        end = self._filter_end(start)
        text = self._text[start:end]
        self.at = end + len(")]")
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            self._steps.append(Filter(_path(text), "", ()))
        else:
            left, operator, right = comparison.groups()
            self._steps.append(Filter(_path(left), operator, _path(right)))

    def _filter_end(self, at: int) -> int:
        """Return the position of the closing parenthesis, outside of quotes."""
        quote = ""
        while at < len(self._text):
            character = self._text[at]
            if quote:
                if character == quote and self._text[at - 1] != "\\":
                    quote = ""
            elif character in "\"'":
                quote = character
            elif character == ")":
                if not self._text.startswith("]", at + 1):
                    raise JsonPathError("unclosed array expect ]")
                return at
            at += 1
        raise JsonPathError("unterminated filter")


def _slice(text: str) -> Slice:
    match = _SLICE.fullmatch(":" if text == "*" else text)
    if match is None or not text:
        raise JsonPathError(f"invalid array index {text}")
    start, stop, step = match.groups()
    return Slice(
        int(start) if start else None,
        int(stop[1:]) if stop and stop != ":" else None,
        int(step[1:]) if step and step != ":" else None,
        is_single=not stop,
    )


def _unquoted(text: str) -> str:
    """Return the text inside quotes, with Go's escapes resolved."""
    quote, inside = text[0], text[1:-1]

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPES:
            return _ESCAPES[code]
        if code == quote:
            return quote
        if code[0] in "xuU" and len(code) > 1:
            return chr(int(code[1:], 16))
        if len(code) == 3:
            return chr(int(code, 8))
        raise JsonPathError(f"unquote string {text} error invalid syntax")

    pattern = r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.|$)"
    return re.sub(pattern, character, inside, flags=re.DOTALL)
