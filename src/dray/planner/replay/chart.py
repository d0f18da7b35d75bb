"""A chart of the allocation against the demand, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from statistics import median_low
from typing import NamedTuple

from dray.planner.replay.runs import Run, Sample

_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 40, 56
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5b4db5", "#7a7a7a",
)  # fmt: skip
"""Colours that people who see few colours can tell apart; lines differ in their dashes too."""
_DASHES = ("", "8 3", "3 3", "10 3 2 3", "1 3")
_POINTS = 400
_DAY = 86_400
_DEMAND = "requested"
"""The line of what is requested, after those of the policies."""

Line = Sequence[tuple[float, float]]


class _Axis(NamedTuple):
    low: float
    high: float
    label: str

    def ticks(self) -> list[float]:
        rough = (self.high - self.low) / 6
        size = 10 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
        first = math.ceil(self.low / step)
        return [step * n for n in range(first, math.floor(self.high / step) + 1)]


def against_demand(curves: Mapping[str, Sequence[Sample]], unit: str) -> str:
    """Return the chart for pods that arrive and stay; it begins where most policies part."""
    parted = median_low(
        next((s.at for s in curve if s.at - s.allocated > 0.5), curve[-1].at)
        for curve in curves.values()
    )
    begin = max(0.0, math.floor((parted - 5) / 10) * 10)
    lines = {
        policy: [(s.at, s.allocated) for s in curve if s.at >= begin]
        for policy, curve in curves.items()
    }
    end = max(x for line in lines.values() for x, _ in line)
    x = _Axis(begin, max(end, begin + 1), f"requested, % of all {unit}")
    heights = [y for line in lines.values() for _, y in line]
    low = math.floor(min(heights) / 5) * 5
    y = _Axis(low, max(*heights, low) + 2, f"allocated, % of all {unit}")
    lines[_DEMAND] = [(begin, begin), (min(x.high, y.high),) * 2]
    return _drawn(lines, x, y)


def over_time(runs: Sequence[Run]) -> str:
    """Return the chart for pods that come and leave, of the first run of each policy."""
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.policy, run)
    begin = min(run.samples[1].at for run in first.values())
    lines: dict[str, Line] = {}
    for policy, run in first.items():
        samples = run.samples[1:]
        kept = samples[:: math.ceil(len(samples) / _POINTS)]
        lines[policy] = [((s.at - begin) / _DAY, s.allocated) for s in kept]
        lines[_DEMAND] = [((s.at - begin) / _DAY, s.demand) for s in kept]
    lines[_DEMAND] = lines.pop(_DEMAND)
    points = [point for line in lines.values() for point in line]
    x = _Axis(0, max(max(x for x, _ in points), 1e-6), "days")
    y = _Axis(0, max(y for _, y in points) + 2, "% of all GPUs")
    return _drawn(lines, x, y)


def _drawn(lines: Mapping[str, Line], x: _Axis, y: _Axis) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="13">',
        "<title>GPU allocation against demand, by policy</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        *_axes(x, y),
    ]
    for number, (name, line) in enumerate(lines.items()):
        is_demand = number == len(lines) - 1
        colour = "#222222" if is_demand else _COLOURS[number % len(_COLOURS)]
        dashes = "2 4" if is_demand else _DASHES[number % len(_DASHES)]
        style = f'stroke="{colour}" stroke-dasharray="{dashes}" stroke-width="2" fill="none"'
        points = " ".join(f"{_across(x, at):.1f},{_down(y, value):.1f}" for at, value in line)
        height = _TOP + 10 + 20 * number
        begin = _WIDTH - _RIGHT + 12
        parts += [
            f'<polyline points="{points}" {style}/>',
            f'<line x1="{begin}" y1="{height}" x2="{begin + 24}" y2="{height}" {style}/>',
            f'<text x="{begin + 30}" y="{height + 4}">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def _axes(x: _Axis, y: _Axis) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for tick in x.ticks():
        at = f"{_across(x, tick):.1f}"
        parts.append(f'<line x1="{at}" y1="{_TOP}" x2="{at}" y2="{bottom}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{at}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in y.ticks():
        at = f"{_down(y, tick):.1f}"
        parts.append(f'<line x1="{_LEFT}" y1="{at}" x2="{right}" y2="{at}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at}" dy="4" text-anchor="end">{tick:g}</text>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">{escape(x.label)}</text>'
    )
    parts.append(f'<text x="{_LEFT - 48}" y="{_TOP - 16}">{escape(y.label)}</text>')
    return parts


def _across(axis: _Axis, value: float) -> float:
    return _LEFT + (value - axis.low) / (axis.high - axis.low) * (_WIDTH - _LEFT - _RIGHT)


def _down(axis: _Axis, value: float) -> float:
    scale = (_HEIGHT - _TOP - _BOTTOM) / (axis.high - axis.low)
    return _HEIGHT - _BOTTOM - (value - axis.low) * scale
