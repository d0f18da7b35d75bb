"""The funnel as a chart: a bar for the devices left after each filter."""

from __future__ import annotations

from collections.abc import Iterator

from dray.explain.claim_explanation import Explanation
from dray.explain.survey.filters import DeviceFilter, FilterKind
from dray.explain.survey.funnel import Funnel
from dray.explain.text import phrases

WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"

_NAMES = {
    FilterKind.NODE: "for the node",
    FilterKind.FEATURES: "gates",
    FilterKind.TAINTS: "untainted",
    FilterKind.TAKEN: "not taken",
    FilterKind.CAPACITY: "capacity left",
    FilterKind.GROUPS: "compatible",
    FilterKind.COUNTERS: "counters left",
    FilterKind.CONSTRAINTS: "comparable",
}


def text(explanation: Explanation) -> str:
    """Return the chart; empty without funnels."""
    return "\n".join(line for funnel in explanation.funnels for line in _funnel(funnel))


def _funnel(funnel: Funnel) -> Iterator[str]:
    counts = [("published", funnel.published)]
    counts += [(_name(stage.filter), stage.after) for stage in funnel.stages if stage.before]
    labels = max(len(label) for label, _ in counts)
    width = len(phrases.number(funnel.published))
    yield f"request {funnel.request}"
    for label, count in counts:
        bar = _bar(count, funnel.published)
        yield f"  {label:<{labels}} {phrases.number(count):>{width}} {bar}".rstrip()


def _name(device_filter: DeviceFilter) -> str:
    if device_filter.kind is FilterKind.CLASS:
        return f"class selector {device_filter.index}"
    if device_filter.kind is FilterKind.SELECTOR:
        return f"selector {device_filter.index}"
    return _NAMES[device_filter.kind]


def _bar(count: int, whole: int) -> str:
    """Return a bar of eighths of a character, at least one eighth while something is left."""
    eighths = round(WIDTH * 8 * count / whole) if whole else 0
    eighths = max(eighths, 1) if count else 0
    return _FULL * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
