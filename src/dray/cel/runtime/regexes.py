r"""Regular expressions as Go's package regexp has them, run by RE2.

The two share their syntax and semantics but for `\C`, which Go does not know, and for the words of
their complaints.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import re2

from dray.cel.runtime.values import EvaluationError

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True

_MAXIMUM_SET_SIZE = 1000

_LITERAL_OR_ESCAPE = re.compile(r"\\Q.*?(?:\\E|$)|\\(.)", re.DOTALL)

_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}


class Pattern:
    """A compiled expression. Bytes are matched, which is twice as fast as strings."""

    __slots__ = ("_compiled", "_search", "is_in")

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._search = compiled.search
        self.is_in: Callable[[bytes], Any] = _set_of(compiled) or compiled.search
        """Something true if there is a match in a text encoded as UTF-8."""

    def find(self, text: str) -> str:
        """Return the first match, or an empty string."""
        match = self._search(text.encode())
        return bytes(match[0]).decode() if match else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Return the matches, at most `limit` unless that is negative."""
        texts: list[str] = []
        octets = text.encode()
        previous_end = -1
        for match in self._compiled.finditer(octets):
            if len(texts) == limit:
                break
            start, end = match.span()
            if start == end and _is_inside_character(octets, start):
                continue
            # Go drops an empty match that touches the one before.
            if start < end or start != previous_end:
                texts.append(bytes(match[0]).decode())
            previous_end = end
        return texts


def _is_inside_character(octets: bytes, position: int) -> bool:
    return octets[position : position + 1] >= b"\x80" and octets[position] < 0xC0


def _set_of(compiled: Any) -> Callable[[bytes], Any] | None:
    """Return a set of this expression alone, which finds whether there is a match twice as fast.

    It needs memory in proportion to the expression; a large one is better off without it.
    """
    if compiled.programsize > _MAXIMUM_SET_SIZE:
        return None
    alone = re2.Set.SearchSet(_OPTIONS)
    alone.Add(compiled.pattern)
    alone.Compile()
    match: Callable[[bytes], Any] = alone.Match
    return match


@functools.lru_cache(maxsize=256)
def compile(pattern: str) -> Pattern:
    """Compile an expression without groups. Raises Go's error for an invalid one."""
    if any(escape[1] == "C" for escape in _LITERAL_OR_ESCAPE.finditer(pattern)):
        raise _parse_error("invalid escape sequence", r"\C")
    try:
        return Pattern(re2.compile(pattern, _OPTIONS))
    except re2.error as error:
        raise _translated(error) from None


def _translated(error: Exception) -> EvaluationError:
    message = error.args[0]
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    for re2_words, go_words in _GO_WORDS.items():
        if text == re2_words or text.startswith(f"{re2_words}: "):
            return _parse_error(go_words, text[len(re2_words) + 2 :])
    words, _, place = text.partition(": ")
    return _parse_error(words, place)


def _parse_error(words: str, place: str) -> EvaluationError:
    return EvaluationError(f"error parsing regexp: {words}: `{place}`")
