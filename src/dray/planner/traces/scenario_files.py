"""Scenario files with errors that name line and column."""

from __future__ import annotations

import json
import re

import msgspec

from dray.allocator import scenarios
from dray.allocator.scenarios import Scenario
from dray.planner.traces.errors import TraceError

_PLACE = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_BYTE = re.compile(r" \(byte (\d+)\)$")
_SPACE = re.compile(r"[ \t\r\n]*")


def read(data: bytes, file: str) -> Scenario:
    """Read a scenario. Raises TraceError."""
    try:
        return scenarios.read(data)
    except msgspec.ValidationError as error:
        message = str(error)
        place = _PLACE.search(message)
        text = data.decode("utf-8", "replace")
        path = place.group(1) if place else ""
        offset = _offset(text, path)
        problem = f"{path.lstrip('.') or 'the file'}: {_PLACE.sub('', message)}"
        raise _error(file, text, offset, problem) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        byte = _BYTE.search(str(error))
        before = data[: int(byte.group(1)) if byte else len(data)].decode("utf-8", "replace")
        problem = f"no JSON: {_BYTE.sub('', str(error)).removeprefix('JSON is malformed: ')}"
        raise _error(file, before, len(before), problem) from error


def _error(file: str, text: str, offset: int, problem: str) -> TraceError:
    line = text.count("\n", 0, offset) + 1
    return TraceError(file, line, offset - text.rfind("\n", 0, offset), problem)


def _offset(text: str, path: str) -> int:
    """Return where the value begins to which a path leads, as far as it exists."""
    offset = _skipped(text, 0)
    for step in _STEP.finditer(path):
        key, index = step.groups()
        found = _in_list(text, offset, int(index)) if index else _in_object(text, offset, key)
        if found is None:
            break
        offset = found
    return offset


def _in_object(text: str, offset: int, key: str) -> int | None:
    if text[offset] != "{":
        return None
    offset = _skipped(text, offset + 1)
    while text[offset] == '"':
        name, offset = json.JSONDecoder().raw_decode(text, offset)
        offset = _skipped(text, _skipped(text, offset) + 1)
        if name == key:
            return offset
        offset = _after(text, offset)
    return None


def _in_list(text: str, offset: int, index: int) -> int | None:
    if text[offset] != "[":
        return None
    offset = _skipped(text, offset + 1)
    for _ in range(index):
        offset = _after(text, offset)
    return offset


def _after(text: str, offset: int) -> int:
    """Return where the next value or name begins, after the value that begins here."""
    _, end = json.JSONDecoder().raw_decode(text, offset)
    end = _skipped(text, end)
    return _skipped(text, end + 1) if text[end] == "," else end


def _skipped(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    assert match is not None, "the pattern matches nothing too"
    return match.end()
