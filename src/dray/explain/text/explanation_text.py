"""Explanations as text, as one line for a pod's condition, and as JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api.ids import ClaimKey
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.suggestions.changes import SuggestedChange
from dray.explain.survey.diagnosis import Reason
from dray.explain.survey.facts import FilterFacts
from dray.explain.survey.faults import Fault, SelectorBroken, SelectorFails
from dray.explain.survey.filters import DeviceFilter, FilterKind
from dray.explain.survey.funnel import FilterCount, Funnel
from dray.explain.text import funnel_chart, phrases

_STAGES_SHOWN = 7
_NOTES_SHOWN = 3
_REASONS_SHOWN = 6
_DEVICES_SHOWN = 8


def text(explanation: Explanation, *, bars: bool = False) -> str:
    """Return the whole explanation: the verdict, what would help, then the details."""
    lines = [headline(explanation), *(f"  {line}" for line in fixes(explanation))]
    return "\n".join([*lines, *details(explanation, bars=bars)]) + "\n"


def details(explanation: Explanation, *, bars: bool = False) -> Iterator[str]:
    """Yield the details, a few lines for each request; with `bars` for the devices left."""
    for line in explanation.message.splitlines():
        yield f"  {line}"
    for number, fault in enumerate(explanation.faults):
        yield from _fault(explanation, fault, in_headline=not number)
    if explanation.outcome in (Outcome.REFUSED, Outcome.UNDECIDED):
        yield from _funnels(explanation, bars=bars)
    yield from _reasons(explanation)
    if explanation.allocated:
        names = phrases.listed([phrases.claim(key) for key in explanation.allocated])
        nodes = phrases.counted(explanation.nodes, "node")
        yield f"note: {names} is already allocated, which leaves {nodes}"
    for pool in explanation.unusable:
        yield f"note: {phrases.pool(pool)}"
    for slices in explanation.unreachable_slices:
        yield f"note: {phrases.unreachable(slices)}"


def headline(explanation: Explanation) -> str:
    names = phrases.listed([phrases.claim(key) for key in explanation.claims])
    verb = "do" if len(explanation.claims) > 1 else "does"
    together = " together" if len(explanation.claims) > 1 else ""
    match explanation.outcome:
        case Outcome.ALLOCATED:
            return f"{names}: allocated: {_devices(explanation)}"
        case Outcome.FITS:
            return f"{names}: fits{together} on node {explanation.node}: {_devices(explanation)}"
        case Outcome.FAILED:
            return f"{names}: cannot be allocated: {cause(explanation)}"
        case Outcome.UNDECIDED:
            return f"{names}: {cause(explanation)}"
    if not explanation.nodes:
        return f"{names}: {cause(explanation)}"
    where = f"any of {phrases.number(explanation.nodes)} nodes"
    where = "the only node" if explanation.nodes == 1 else where
    return f"{names}: {verb} not fit{together} on {where}: {cause(explanation)}"


def cause(explanation: Explanation) -> str:
    """Return the main reason why the claims do not fit."""
    if explanation.outcome is Outcome.UNDECIDED:
        return "the search for devices was given up; there are too many combinations"
    for fault in explanation.faults[:1]:
        request = _request(explanation, fault.claim, fault.request)
        where = f"request {request}: " if fault.request else ""
        facts = _facts_of(explanation, fault)
        return f"{where}{phrases.fault(fault)}{f' ({facts[0]})' if facts else ''}"
    for reason in explanation.reasons[:1]:
        return f"{_why(explanation, reason)}{_detail(explanation, reason)}"
    if explanation.message:
        return explanation.message.splitlines()[0]
    return "there is no node that can be used"


def fixes(explanation: Explanation) -> list[str]:
    """Return what would help, in one line each; every change was tried."""
    if explanation.outcome in (Outcome.ALLOCATED, Outcome.FITS) or not explanation.nodes:
        return []
    lines = [
        f"{'or' if number else 'fix'}: {change_text(explanation, change)}; it fits on {change.node}"
        for number, change in enumerate(explanation.changes)
    ]
    return lines or ["No single change would make it fit."]


def _devices(explanation: Explanation) -> str:
    words = [f"{device.request}={device.device}" for device in explanation.devices]
    return " ".join([*words[:_DEVICES_SHOWN], *(["…"] if len(words) > _DEVICES_SHOWN else [])])


def _fault(explanation: Explanation, fault: Fault, *, in_headline: bool) -> Iterator[str]:
    """Yield a fault with its facts; of one that is in the headline, only the other facts."""
    facts = _facts_of(explanation, fault)[:_NOTES_SHOWN]
    if not in_headline:
        request = _request(explanation, fault.claim, fault.request)
        where = f"request {request}: " if fault.request else ""
        yield f"  {where}{phrases.fault(fault)}"
    for words in facts[1:] if in_headline else facts:
        yield f"    {words}"


def _facts_of(explanation: Explanation, fault: Fault) -> list[str]:
    """Return the facts about a faulty selector."""
    if not isinstance(fault, SelectorBroken | SelectorFails):
        return []
    for fact in explanation.facts:
        place = (fact.claim, fact.request, fact.filter.device_class, fact.filter.index)
        fault_place = (fault.claim, fault.request, fault.device_class, fault.index)
        if fact.filter.is_selector and place == fault_place:
            return phrases.facts(fact)
    return []


def _funnels(explanation: Explanation, *, bars: bool) -> Iterator[str]:
    """Yield the blocked requests one by one, then all others in one line."""
    shown = _shown_funnels(explanation)
    fine = [funnel for funnel in explanation.funnels if funnel not in shown]
    for funnel in shown:
        yield from _funnel(explanation, funnel, bars=bars)
    if fine:
        names = [_request(explanation, item.claim, item.request) for item in fine]
        noun = "request" if len(names) == 1 else "requests"
        listed = phrases.limited(names, len(names), "request")
        yield f"{noun} {listed}: can be served alone"


def _shown_funnels(explanation: Explanation) -> list[Funnel]:
    """Return the funnels of the requests that are blocked, or that of the only request."""
    if len(explanation.funnels) == 1:
        return list(explanation.funnels)
    return [funnel for funnel in explanation.funnels if funnel.blocked]


class FunnelRow(NamedTuple):
    """The devices that are left after one more filter of a request, and how many there were."""

    request: str
    label: str
    left: int
    of: int


def funnel_rows(explanation: Explanation) -> Iterator[FunnelRow]:
    """Yield the rows of all funnels that are shown, for charts."""
    if explanation.outcome not in (Outcome.REFUSED, Outcome.UNDECIDED):
        return
    for funnel in _shown_funnels(explanation):
        request = _request(explanation, funnel.claim, funnel.request)
        yield FunnelRow(request, "published", funnel.published, funnel.published)
        for stage in _worth_showing(funnel):
            label = _stage_words(funnel, stage)
            yield FunnelRow(request, label, stage.after, funnel.published)


def _funnel(explanation: Explanation, funnel: Funnel, *, bars: bool) -> Iterator[str]:
    needed = phrases.counted(funnel.needed, "device") if funnel.needed else "all devices"
    request = _request(explanation, funnel.claim, funnel.request)
    yield f"request {request}: {needed} of class {funnel.device_class}"
    width = len(phrases.number(funnel.published))

    def row(count: int, words: str) -> str:
        bar = f"{funnel_chart.bar(count, funnel.published)} " if bars else ""
        return f"  {phrases.number(count):>{width}} {bar}{words}"

    yield row(funnel.published, "published")
    shown: list[str] = []
    for stage in _worth_showing(funnel):
        failing = f" (fails on {phrases.number(stage.failing)})" if stage.failing else ""
        yield row(stage.after, f"{_stage_words(funnel, stage)}{failing}")
        for words in _notes(explanation, funnel, stage)[: _NOTES_SHOWN - len(shown)]:
            shown.append(words)
            yield f"  {'':>{width}}   {words}"
    if funnel.best and 0 < funnel.best.left < funnel.needed:
        most = f"most on one node: {phrases.number(funnel.best.left)} on {funnel.best.node}"
        yield f"  {most}, {phrases.number(funnel.needed)} needed"
    near = funnel.nearest
    if near and near.lacks and funnel.blocked:
        lacks = phrases.listed(
            [phrases.rejection(lack, explanation.consumers) for lack in near.lacks]
        )
        if f"{near.device.device}: {lacks}" not in shown:
            yield f"  nearest miss: {near.device.device} on {near.node}: {lacks}"


def _stage_words(funnel: Funnel, stage: FilterCount) -> str:
    """Return the words for a filter; the selector of a class only if it is the cause."""
    if stage.filter.kind is FilterKind.CLASS and not _is_decisive(funnel, stage):
        return f"of class {stage.filter.device_class}"
    return phrases.device_filter(stage.filter)


def _is_decisive(funnel: Funnel, stage: FilterCount) -> bool:
    """Return whether a filter is the cause; the selector of a class only if nothing passes it."""
    if stage.filter.kind is FilterKind.CLASS and stage.after:
        return bool(stage.failing)
    return bool(stage.failing) or any(item.filter == stage.filter for item in funnel.blocked)


def _worth_showing(funnel: Funnel) -> Iterator[FilterCount]:
    """Yield the filters that remove devices, and selectors as far as there is space.

    Of the selectors of a class that are not the cause, only the last.
    """
    reached = [stage for stage in funnel.stages if stage.before]
    of_class = [
        stage
        for stage in reached
        if stage.filter.kind is FilterKind.CLASS and not _is_decisive(funnel, stage)
    ]
    reached = [stage for stage in reached if stage not in of_class[:-1]]
    losing = [stage for stage in reached if stage.lost]
    room = _STAGES_SHOWN - len(losing)
    shown = 0
    for stage in reached:
        if stage.lost and shown < _STAGES_SHOWN:
            shown += 1
            yield stage
        elif stage.filter.is_selector and room > 0:
            room -= 1
            yield stage


def _notes(explanation: Explanation, funnel: Funnel, stage: FilterCount) -> list[str]:
    if not stage.lost:
        return []
    notes = []
    facts = _facts_at(explanation, funnel, stage.filter)
    if facts is not None and _is_decisive(funnel, stage):
        notes += phrases.facts(facts)[:2]
    note = phrases.stage_note(stage, explanation.consumers)
    return [*notes, note] if note else notes


def _facts_at(
    explanation: Explanation, funnel: Funnel, device_filter: DeviceFilter
) -> FilterFacts | None:
    for fact in explanation.facts:
        if (fact.claim, fact.request, fact.filter) == (funnel.claim, funnel.request, device_filter):
            return fact
    return None


def _request(explanation: Explanation, claim: int, request: str) -> str:
    if len(explanation.claims) == 1 or claim < 0:
        return request
    return f"{request} of {phrases.claim(explanation.claims[claim])}"


def _reasons(explanation: Explanation) -> Iterator[str]:
    """Yield the reasons by nodes; a single one is in the headline."""
    if len(explanation.reasons) < 2:
        return
    for reason in explanation.reasons[:_REASONS_SHOWN]:
        nodes = phrases.limited(reason.examples, reason.nodes, "node")
        yield f"{phrases.counted(reason.nodes, 'node')} ({nodes}): {_why(explanation, reason)}"
    hidden = sum(reason.nodes for reason in explanation.reasons[_REASONS_SHOWN:])
    if hidden:
        yield f"{phrases.counted(hidden, 'node')}: for other reasons"


def _why(explanation: Explanation, reason: Reason) -> str:
    if reason.rejection is not None:
        return phrases.combined_rejection(reason.rejection, explanation.consumers)
    if reason.filter is None:
        return "no devices that can be used"
    needed = next(
        funnel.needed
        for funnel in explanation.funnels
        if funnel.key == (reason.claim, reason.request)
    )
    short = phrases.shortage(reason.filter, needed)
    if len(explanation.funnels) == 1:
        return short
    return f"request {_request(explanation, reason.claim, reason.request)}: {short}"


def change_text(explanation: Explanation, change: SuggestedChange) -> str:
    """Return what to change."""
    return phrases.change(change, explanation.claims, explanation.consumers)


def summary(explanation: Explanation) -> str:
    """Return one line for the condition of a pod, after upstream's message."""
    match explanation.outcome:
        case Outcome.ALLOCATED | Outcome.FITS | Outcome.UNDECIDED:
            return headline(explanation)
    words = [_counted_reason(explanation, reason) for reason in explanation.reasons[:3]]
    for fault in explanation.faults[:2]:
        detail = f" ({facts[0]})" if (facts := _facts_of(explanation, fault)) else ""
        words.append(f"{phrases.fault(fault)}{detail}")
    if any(reason.filter is None and reason.rejection is None for reason in explanation.reasons):
        words += [phrases.pool(item) for item in explanation.unusable[:1]]
        words += [phrases.unreachable(slices) for slices in explanation.unreachable_slices[:1]]
    if not words:
        words = [headline(explanation)]
    why = "; ".join(dict.fromkeys(words))
    if not explanation.changes:
        return f"{why}."
    return f"{why}. Would fit: {change_text(explanation, explanation.changes[0])}."


def short(explanation: Explanation) -> str:
    """Return why the claims do not fit in a few words, without details and remedies."""
    reasons = explanation.reasons[:3]
    words = [
        f"{phrases.counted(reason.nodes, 'node')}: {_why(explanation, reason)}"
        if len(reasons) > 1
        else _why(explanation, reason)
        for reason in reasons
    ]
    words += [phrases.fault(fault) for fault in explanation.faults[:1]]
    return "; ".join(dict.fromkeys(words)) or cause(explanation)


def _counted_reason(explanation: Explanation, reason: Reason) -> str:
    nodes = phrases.counted(reason.nodes, "node")
    return f"{nodes}: {_why(explanation, reason)}{_detail(explanation, reason)}"


def _detail(explanation: Explanation, reason: Reason) -> str:
    """Return the most important note about a filter."""
    for funnel in explanation.funnels:
        if reason.filter is None or funnel.key != (reason.claim, reason.request):
            continue
        for stage in funnel.stages:
            notes = _notes(explanation, funnel, stage) if stage.filter == reason.filter else []
            if notes:
                return f" ({notes[0]})"
    return ""


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON: data and texts, ids as text."""
    built: dict[str, Any] = _plain(explanation)
    del built["consumers"], built["specs"]
    built["summary"] = summary(explanation)
    built["text"] = text(explanation)
    for change, words in zip(explanation.changes, built["changes"], strict=True):
        words["text"] = change_text(explanation, change)
    for reason, words in zip(explanation.reasons, built["reasons"], strict=True):
        words["text"] = _why(explanation, reason)
    for fault, words in zip(explanation.faults, built["faults"], strict=True):
        words["text"] = phrases.fault(fault)
    return built


def _plain(value: Any) -> Any:
    """Convert structs to objects in camel case and ids to text."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        fields = {_camel(name): _plain(getattr(value, name)) for name in value.__struct_fields__}
        return {**tag, **fields}
    if isinstance(value, ClaimKey):
        return phrases.claim(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(item.title() for item in others)
