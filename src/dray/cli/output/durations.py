"""Durations on the command line: `30s`, `1m30s`, `500ms`, or a number of seconds."""

from __future__ import annotations

import re

import click

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """Return a duration in seconds. Raises ValueError for anything else."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse(context: click.Context, parameter: click.Parameter, text: str) -> float:
    """Parse the duration of an option, as a click callback."""
    try:
        return seconds(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: write 30s, 1m or 2h", context, parameter) from error
