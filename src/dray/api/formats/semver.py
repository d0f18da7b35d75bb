"""Semantic versions 2.0 as Kubernetes reads them: strict, or normalised first.

Order and equality ignore build metadata. Messages are those of blang/semver, which upstream uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from dray.api.formats import gotext, remembered

PrereleasePart: TypeAlias = int | str

_MAXIMUM_NUMBER = 2**64 - 1
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*", re.ASCII)


class VersionError(ValueError):
    """The text is not a version."""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """An immutable version; `key` decides order, equality and hash."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[PrereleasePart, ...] = ()
    build: tuple[str, ...] = ()
    key: tuple[object, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Numbers come before words; no prerelease comes after any.
        parts = tuple((isinstance(part, str), part) for part in self.prerelease)
        key = (self.major, self.minor, self.patch, not parts, parts)
        object.__setattr__(self, "key", key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __le__(self, other: Version) -> bool:
        return self.key <= other.key

    def __gt__(self, other: Version) -> bool:
        return self.key > other.key

    def __ge__(self, other: Version) -> bool:
        return self.key >= other.key

    def compare(self, other: Version) -> int:
        """Return -1, 0 or 1 if this version is before, equal to or after `other`."""
        return (self.key > other.key) - (self.key < other.key)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(map(str, self.prerelease))
        if self.build:
            text += "+" + ".".join(self.build)
        return text


@remembered.for_short_texts(4096)
def _parse(text: str) -> Version:
    parts = text.split(".", 2)
    if len(parts) != 3:
        message = "No Major.Minor.Patch elements found" if text else "Version string empty"
        raise VersionError(message)
    major = _number("Major", parts[0])
    minor = _number("Minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, prerelease = rest.partition("-")
    patch = _number("Patch", patch_text)
    return Version(
        major,
        minor,
        patch,
        tuple(map(_prerelease_part, prerelease.split("."))) if dash else (),
        tuple(map(_build_part, build.split("."))) if plus else (),
    )


def parse(text: str) -> Version:
    """Parse a version. Raises VersionError."""
    return _parse(text)


def parse_normalized(text: str) -> Version:
    """Parse a version without a leading "v" and leading zeros; missing numbers are zero.

    See apiserver, cel/library/semverlib.go, normalizeAndParse.
    """
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(mark in parts[-1] for mark in "+-"):
        raise VersionError("short version cannot contain PreRelease/Build meta data")
    return parse(".".join(parts + ["0"] * (3 - len(parts))))


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if _is_number(stripped[:1]) and stripped else "0" + stripped


def _number(name: str, text: str) -> int:
    if not _is_number(text):
        raise VersionError(
            f"Invalid character(s) found in {name.lower()} number {gotext.quote(text)}"
        )
    if _has_leading_zeros(text):
        raise VersionError(f"{name} number must not contain leading zeroes {gotext.quote(text)}")
    return _unsigned(text)


def _prerelease_part(text: str) -> PrereleasePart:
    if not text:
        raise VersionError("Prerelease is empty")
    if _is_number(text):
        if _has_leading_zeros(text):
            raise VersionError(
                "Numeric PreRelease version must not contain leading zeroes " + gotext.quote(text)
            )
        return _unsigned(text)
    if not _ALPHANUMERIC.fullmatch(text):
        raise VersionError(f"Invalid character(s) found in prerelease {gotext.quote(text)}")
    return text


def _build_part(text: str) -> str:
    if not text:
        raise VersionError("Build meta data is empty")
    if not _ALPHANUMERIC.fullmatch(text):
        raise VersionError(f"Invalid character(s) found in build meta data {gotext.quote(text)}")
    return text


def _unsigned(text: str) -> int:
    """Parse digits without leading zeros as Go's strconv.ParseUint does."""
    if not text:
        raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAXIMUM_NUMBER:
        raise VersionError(f"strconv.ParseUint: parsing {gotext.quote(text)}: value out of range")
    return int(text)


def _is_number(text: str) -> bool:
    """Return whether every character is a digit; true of the empty text."""
    return not text or (text.isascii() and text.isdigit())


def _has_leading_zeros(text: str) -> bool:
    return len(text) > 1 and text[0] == "0"
