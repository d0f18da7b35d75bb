"""Colours with a meaning; none without a terminal or with NO_COLOR."""

from __future__ import annotations

import os

import click

GOOD, BUSY, WARNING, BAD, MUTED = "green", "blue", "yellow", "red", "bright_black"
STATES = {
    "free": GOOD,
    "shared": "cyan",
    "in use": BUSY,
    "blocked": WARNING,
    "missing": BAD,
}
"""The colours of device states."""


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour. `click.echo` takes the colour away unless on a terminal."""
    if not colour or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour)


def state(text: str) -> str:
    """Return the text of a device's state in the colour of the state that it begins with."""
    colours = (colour for name, colour in STATES.items() if text.startswith(name))
    return coloured(text, next(colours, ""))


def number(text: str) -> str:
    """Return a number of a table, zeros in grey."""
    return coloured(text, MUTED) if text.strip() == "0" else text
