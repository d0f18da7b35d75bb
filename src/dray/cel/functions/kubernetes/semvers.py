"""Kubernetes' semantic version library, version 1 (apiserver, cel/library/semverlib.go)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.api.formats import semver
from dray.api.formats.semver import Version
from dray.cel.functions import prices
from dray.cel.functions.dispatching import accepts, charged, function
from dray.cel.functions.overloads import Function, Library, Overload, member
from dray.cel.runtime.values import MAXIMUM_INT, EvaluationError
from dray.cel.types import BOOL, INT, SEMVER, STRING, Type


def parse(text: str, is_normalized: bool = False) -> Version:
    """Parse a version; with `is_normalized` also "v1.2"."""
    try:
        return semver.parse_normalized(text) if is_normalized else semver.parse(text)
    except semver.VersionError as error:
        raise EvaluationError(str(error)) from None


def major(version: Version) -> int:
    return _signed(version.major)


def minor(version: Version) -> int:
    return _signed(version.minor)


def patch(version: Version) -> int:
    return _signed(version.patch)


def _signed(number: int) -> int:
    return number if number <= MAXIMUM_INT else number - 2**64


def is_less_than(version: Version, other: Version) -> bool:
    return version.key < other.key


def is_greater_than(version: Version, other: Version) -> bool:
    return version.key > other.key


def _from_text(id: str, result: Type, call: Callable[..., Any], *others: Type) -> Overload:
    return Overload(id, (STRING, *others), result, call, *prices.SCAN)


def _member(name: str, id: str, result: Type, call: Callable[..., Any], *others: Type) -> Function:
    return function(name, member(id, (SEMVER, *others), result, call))


LIBRARY: Library = (
    charged(
        "semver",
        _from_text("string_to_semver", SEMVER, parse),
        _from_text("string_bool_to_semver", SEMVER, parse, BOOL),
    ),
    charged(
        "isSemver",
        _from_text("is_semver_string", BOOL, accepts(parse)),
        _from_text("is_semver_string_bool", BOOL, accepts(parse), BOOL),
    ),
    _member("major", "semver_major", INT, major),
    _member("minor", "semver_minor", INT, minor),
    _member("patch", "semver_patch", INT, patch),
    _member("isLessThan", "semver_is_less_than", BOOL, is_less_than, SEMVER),
    _member("isGreaterThan", "semver_is_greater_than", BOOL, is_greater_than, SEMVER),
    _member("compareTo", "semver_compare_to", INT, Version.compare, SEMVER),
)
