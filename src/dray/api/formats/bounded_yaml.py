"""YAML as Kubernetes reads it, from parser events and within limits.

Every event is counted before anything is made of it, so that depth, parts and aliases end in an
error and never in a deep recursion or a product of aliases. Scalars mean what sigs.k8s.io/yaml
makes of them: `yes` and `y` are booleans, times and base-60 numbers are text, keys are text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from dray.api.formats import gojson

MAX_DIRECTIVES = 8
"""The parser compares every `%TAG` with all before it; manifests have none."""
_TAGS = "tag:yaml.org,2002:"
_MERGE = "<<"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text is not YAML, or exceeds a limit; `line`, from 1, is where reading ended."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"yaml: line {line}: {problem}")
        self.line, self.problem = line, problem


class Limits(NamedTuple):
    """The most that a text may have; each alias counts as all parts that it stands for."""

    parts: int
    depth: int
    has_aliases: bool = False
    has_short_booleans: bool = True
    """Whether `y` and `n` are booleans, as in manifests."""


REQUEST = Limits(parts=40_000, depth=200)
"""About 0.2 s of reading. Requests have no aliases: no client of Kubernetes sends any."""
FILE = Limits(parts=2_000_000, depth=200, has_aliases=True)
FLEET_FILE = FILE._replace(has_short_booleans=False)
"""A format of dray's own, in which `n` may be the name of a node."""


def load(text: str | bytes, limits: Limits) -> Any:
    """Return the value of the only document; None for an empty text. Raises YamlError."""
    documents = list(load_all(text, limits, most=1))
    return documents[0] if documents else None


def load_all(text: str | bytes, limits: Limits, most: int = 0) -> Iterator[Any]:
    """Yield the value of each document, at most `most` if that is given. Raises YamlError."""
    reader = _Reader(limits)
    count = 0
    for event in _events(text):
        if reader.take(event):
            count += 1
            if most and count > most:
                raise YamlError(_line(event), "expected a single document in the stream")
            yield reader.value


def check(text: str | bytes, limits: Limits) -> None:
    """Raise YamlError for a text that `load_all` refuses."""
    for _ in load_all(text, limits):
        pass


def _events(text: str | bytes) -> Iterator[Any]:
    decoded = _decoded(text) if isinstance(text, bytes) else text
    if decoded.count("%TAG") > MAX_DIRECTIVES:
        raise YamlError(1, f"more than {MAX_DIRECTIVES} %TAG directives")
    loader = None
    try:
        loader = _Loader(decoded)
        while loader.check_event():
            yield loader.get_event()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlError(mark.line + 1 if mark else 1, problem) from error
    except UnicodeEncodeError as error:
        raise YamlError(1, "the text has half of a surrogate pair") from error
    finally:
        if loader is not None:
            loader.dispose()


def _decoded(data: bytes) -> str:
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise YamlError(data.count(b"\n", 0, error.start) + 1, "invalid UTF-8 octet") from error


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Anchored(NamedTuple):
    value: Any
    parts: int


class _Container:
    """A list or a mapping that is being read. `parts_before` and `anchor` are for aliases."""

    __slots__ = ("anchor", "items", "key", "merged", "pairs", "parts_before")

    def __init__(self, anchor: str | None, parts_before: int, *, is_mapping: bool) -> None:
        self.anchor, self.parts_before = anchor, parts_before
        self.items: list[Any] = []
        self.pairs: list[tuple[str, Any]] | None = [] if is_mapping else None
        self.merged: list[dict[str, Any]] = []
        self.key: str | None = None

    def finished(self) -> Any:
        if self.pairs is None:
            return self.items
        own = dict(self.pairs)
        if self.merged:
            # What is written stands before what is merged, and the first of several merged wins.
            inherited: dict[str, Any] = {}
            for mapping in self.merged:
                inherited = {**mapping, **inherited}
            return {**inherited, **own}
        return own if len(own) == len(self.pairs) else gojson.ObjectWithDuplicateKeys(self.pairs)


class _Reader:
    """Builds values from events, without recursion."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parts = 0
        self._stack: list[_Container] = []
        self._anchors: dict[str, _Anchored] = {}
        self.value: Any = None

    def take(self, event: Any) -> bool:
        """Read one event; whether it ends a document, whose `value` is then known."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._count(event)
            value = _scalar(event)
            if value.__class__ is bool and not self._limits.has_short_booleans:
                value = event.value if event.value in _SHORT_BOOLEANS else value
            self._remember(event, value)
            self._put(event, value, is_plain=not event.style)
        elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
            self._open(event, is_mapping=kind is yaml.MappingStartEvent)
        elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
            self._close(event)
        elif kind is yaml.AliasEvent:
            self._put_alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._count(event)
            self._anchors.clear()
        return kind is yaml.DocumentEndEvent

    def _count(self, event: Any, parts: int = 1) -> None:
        self._parts += parts
        if self._parts > self._limits.parts:
            limit = self._limits.parts
            raise YamlError(_line(event), f"the text has more than {limit} values")

    def _open(self, event: Any, *, is_mapping: bool) -> None:
        if event.tag not in (None, "!", f"{_TAGS}{'map' if is_mapping else 'seq'}"):
            raise YamlError(_line(event), f"the tag {event.tag} is not supported here")
        self._refuse_anchor(event)
        self._stack.append(_Container(event.anchor, self._parts, is_mapping=is_mapping))
        self._count(event)
        if len(self._stack) > self._limits.depth:
            depth = self._limits.depth
            raise YamlError(_line(event), f"nested more than {depth} levels deep")

    def _close(self, event: Any) -> None:
        container = self._stack.pop()
        value = container.finished()
        if container.anchor:
            self._anchors[container.anchor] = _Anchored(value, self._parts - container.parts_before)
        self._put(event, value)

    def _remember(self, event: Any, value: Any) -> None:
        if event.anchor:
            self._refuse_anchor(event)
            self._anchors[event.anchor] = _Anchored(value, 1)

    def _refuse_anchor(self, event: Any) -> None:
        if event.anchor and not self._limits.has_aliases:
            raise YamlError(_line(event), f"anchors are not supported: &{event.anchor[:64]}")

    def _put_alias(self, event: Any) -> None:
        if not self._limits.has_aliases:
            raise YamlError(_line(event), f"aliases are not supported: *{event.anchor[:64]}")
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise YamlError(_line(event), f"unknown anchor '{event.anchor}' referenced")
        self._count(event, anchored.parts)
        self._put(event, anchored.value)

    def _put(self, event: Any, value: Any, *, is_plain: bool = False) -> None:
        """Give a value its place: of a document, in a list, as a key or at one."""
        if not self._stack:
            self.value = value
            return
        container = self._stack[-1]
        if container.pairs is None:
            container.items.append(value)
        elif container.key is None:
            container.key = self._key(event, value, is_plain=is_plain)
        elif container.key is _MERGE:
            self._merge(container, event, value)
        else:
            container.pairs.append((container.key, value))
            container.key = None

    def _key(self, event: Any, value: Any, *, is_plain: bool) -> str:
        if is_plain and value == _MERGE:
            if not self._limits.has_aliases:
                raise YamlError(_line(event), "merge keys (<<) are not supported")
            return _MERGE
        key = _key_text(value)
        if key is None:
            raise YamlError(_line(event), "a key must be text, a number or a boolean")
        # Another object than _MERGE: a quoted "<<" is a key like any other.
        return "".join(("<", "<")) if key == _MERGE else key

    def _merge(self, container: _Container, event: Any, value: Any) -> None:
        container.key = None
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                raise YamlError(_line(event), "map merge requires map or sequence of maps")
            self._count(event, len(mapping))
            container.merged.append(mapping)


def _key_text(value: Any) -> str | None:
    """Return a key as sigs.k8s.io/yaml writes it; None for what cannot be one."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_SHORT_BOOLEANS = frozenset({"y", "Y", "n", "N"})
_NO_JSON = frozenset(
    f"{sign}.{word}" for sign in ("", "+") for word in ("inf", "Inf", "INF", "nan", "NaN", "NAN")
) | {"-.inf", "-.Inf", "-.INF"}
_NUMBER_START = frozenset("+-.0123456789")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)"
    r"|(?P<dec>0|[1-9][0-9]*))",
    re.ASCII,
)
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_MAX_NUMBER = 250
"""Characters; a longer text is no number that JSON of Go could hold."""


def _scalar(event: Any) -> Any:
    tag = event.tag
    if tag is None:
        return event.value if event.style else _plain(event, event.value)
    if tag in ("!", f"{_TAGS}str"):
        return event.value
    expected = _TAGGED.get(tag)
    value = _plain(event, event.value) if expected else None
    if (
        expected is None
        or not isinstance(value, expected)
        or isinstance(value, bool) is not (bool in expected)
    ):
        shown = tag.replace(_TAGS, "!!")
        raise YamlError(_line(event), f"cannot decode `{event.value[:64]}` as a {shown}")
    return value


_TAGGED: dict[str, tuple[type, ...]] = {
    f"{_TAGS}bool": (bool,),
    f"{_TAGS}int": (int,),
    f"{_TAGS}float": (int, float),
    f"{_TAGS}null": (type(None),),
    f"{_TAGS}timestamp": (str,),
}


def _plain(event: Any, text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _MAX_NUMBER:
        return text
    if text in _NO_JSON:
        raise YamlError(_line(event), f"{text} is no number of JSON")
    digits = text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        return _integer(match)
    if not _FLOAT.fullmatch(digits if text[0] != "." else text):
        return text
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        return text
    # Go writes whole numbers to JSON without a fraction.
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _integer(match: re.Match[str]) -> int | float:
    form = str(match.lastgroup)
    value = int(match["sign"] + match[form], _BASES[form])
    # Larger ones are floats in Go, too.
    return value if -(2**63) <= value < 2**64 else float(value)
