"""How benchmarks print their figures: one line each, or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click


def printed(figures: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(figures))
        return
    width = max(map(len, figures), default=0)
    for name, value in figures.items():
        click.echo(f"  {name:<{width}}  {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
