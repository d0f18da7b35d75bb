"""Texts of rejections, facts, faults and changes; `explanation_text` puts them together."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import msgspec

from dray.allocator.model import rejections
from dray.api.ids import ClaimKey
from dray.api.types.dra import DeviceTaint
from dray.explain.selectors.expressions import CAPACITY
from dray.explain.suggestions import changes
from dray.explain.suggestions.changes import Rewriting, SuggestedChange
from dray.explain.survey import faults
from dray.explain.survey.facts import Count, FilterFacts, SubjectFact, TypeMistake
from dray.explain.survey.faults import Fault
from dray.explain.survey.filters import CannotEvaluate, DeviceFilter, FilterKind, FilterRejection
from dray.explain.survey.funnel import FilterCount
from dray.explain.survey.node_survey import UnusablePool
from dray.explain.survey.unreachable_slices import UnreachableReason, UnreachableSlices

_EXPRESSION_WIDTH = 88
_SHOWN = 3


def number(value: int) -> str:
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    return f"{number(value)} {plural(noun) if value != 1 else noun}"


def to_be(amount: int | str) -> str:
    """Return "is" or "are"; amounts of a quota are text."""
    return "is" if str(amount) == "1" else "are"


def plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def code(text: str) -> str:
    """Return a part of a manifest as code, to be copied."""
    return f"`{text}`"


def glimpse(text: str) -> str:
    """Return a part of a manifest as code, shortened."""
    plain = " ".join(text.split())
    if len(plain) > _EXPRESSION_WIDTH:
        half = _EXPRESSION_WIDTH // 2
        plain = f"{plain[: half - 1]}…{plain[-half:]}"
    return f"`{plain}`"


def listed(words: Sequence[str], joint: str = "and") -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {joint} {words[-1]}"


def limited(words: Sequence[str], total: int, noun: str) -> str:
    """Return the first few words, and how many more there are."""
    shown = list(words[:_SHOWN])
    if total > len(shown):
        rest = total - len(shown)
        shown.append(f"{number(rest)} more {plural(noun) if rest > 1 else noun}")
    return listed(shown)


def claim(key: ClaimKey) -> str:
    return str(key) if key.namespace else key.name or "an unknown claim"


Consumers = Mapping[ClaimKey, Sequence[str]]
"""The pods that use each claim, as NAMESPACE/NAME."""


def holder(key: ClaimKey, consumers: Consumers, devices: int = 1) -> str:
    """Return a claim that holds devices, by the pod that uses it if that is known."""
    pods = consumers.get(key, ())
    if len(pods) == 1:
        count = f", {number(devices)} devices" if devices > 1 else ""
        return f"pod {pods[0]} (claim {key.name}{count})"
    return f"{claim(key)} ({number(devices)})" if devices > 1 else claim(key)


def ending(keys: Sequence[ClaimKey], consumers: Consumers) -> str:
    """Return the pods, or the claims without one, that have to end."""
    pods = [pod for key in keys for pod in consumers.get(key, ())]
    rest = [f"claim {claim(key)}" for key in keys if not consumers.get(key)]
    named = [f"pod{'s' if len(pods) > 1 else ''} {listed(pods)}"] if pods else []
    return listed([*named, *rest])


NO_CONSUMERS: Consumers = {}


def device_filter(described: DeviceFilter) -> str:
    """Return the words for the devices that pass a filter."""
    if described.is_selector:
        of_class = f"class {described.device_class}, " if described.device_class else ""
        return f"{of_class}selector {described.index}: {glimpse(described.expression)}"
    return _FILTERS[described.kind]


_FILTERS = {
    FilterKind.NODE: "for the node",
    FilterKind.FEATURES: "allowed by the feature gates",
    FilterKind.TAINTS: "without untolerated taints",
    FilterKind.TAKEN: "not in use",
    FilterKind.CAPACITY: "with enough capacity left",
    FilterKind.GROUPS: "compatible with those in use",
    FilterKind.COUNTERS: "with enough of their counters left",
    FilterKind.CONSTRAINTS: "with the attributes that constraints compare",
}


def shortage(failed: DeviceFilter, needed: int) -> str:
    """Return why nodes cannot serve a request, by the filter that leaves too few devices."""
    is_one, are_many = _PASSING[failed.kind]
    if failed.is_selector:
        place = failed.device_class or f"selector {failed.index}"
        is_one, are_many, needed = f"{is_one} {place}", f"{are_many} {place}", max(needed, 1)
    if needed == 1:
        return f"no device {is_one}"
    if needed:
        return f"fewer than {number(needed)} devices {are_many}"
    return f"not every device that matches {is_one}"


_PASSING = {
    FilterKind.CLASS: ("is of class", "are of class"),
    FilterKind.SELECTOR: ("matches", "match"),
    FilterKind.NODE: ("is for the node itself", "are for the node itself"),
    FilterKind.FEATURES: ("is allowed by the feature gates", "are allowed by the feature gates"),
    FilterKind.TAINTS: ("is without untolerated taints", "are without untolerated taints"),
    FilterKind.TAKEN: ("is free", "are free"),
    FilterKind.CAPACITY: ("has enough capacity left", "have enough capacity left"),
    FilterKind.GROUPS: ("is compatible with those in use", "are compatible with those in use"),
    FilterKind.COUNTERS: ("has enough of its counters left", "have enough of their counters left"),
    FilterKind.CONSTRAINTS: ("has the constraint's attribute", "have the constraint's attribute"),
}
"""Texts for one device and for several."""


def holders(stage: FilterCount, consumers: Consumers) -> str:
    words = [holder(held.claim, consumers, held.devices) for held in stage.holders]
    return limited(words, stage.holding, "claim")


def taint(described: DeviceTaint) -> str:
    value = f"={described.value}" if described.value else ""
    return f"{described.key}{value}:{described.effect}"


def filled(template: str, described: msgspec.Struct) -> str:
    """Return a text with the fields of a struct in the places that name them."""
    return template.format_map(msgspec.structs.asdict(described))


def rejection(rejected: FilterRejection, consumers: Consumers = NO_CONSUMERS) -> str:
    """Return why a device does not pass a filter."""
    match rejected:
        case rejections.DeviceInUse():
            return f"held by {_named(rejected.holders, consumers)}"
        case rejections.SelectorNotMatched():
            return f"{_selector(rejected.device_class or '', rejected.index)} is false"
        case rejections.NodeOperationsDisabled():
            skipped = f"skips {listed(rejected.operations)}"
            if rejected.node_lacks_feature:
                return f"{skipped}, and the node does not declare DRAOptionalNodeOperations"
            return _gate_off("DRAOptionalNodeOperations", skipped)
        case rejections.TaintNotTolerated():
            return f"taint {taint(rejected.taint)} is not tolerated"
        case rejections.InsufficientCapacity():
            left = filled(
                "has {available} of {total} `{capacity}` left, {needed} is needed", rejected
            )
            return f"{left}{_used_by(rejected.holders, consumers)}"
        case rejections.GroupsIncompatible():
            own = listed(rejected.groups) or "none"
            present = listed(rejected.present) or "none"
            return (
                f"groups {own} are not compatible with {present} on {code(rejected.counter_set)}, "
                f"in use by {_named(rejected.holders, consumers)}"
            )
        case rejections.InsufficientCounter():
            text = "needs {needed} of counter `{counter}` in `{counter_set}`, {available} is left"
            return f"{filled(text, rejected)}{_used_by(rejected.holders, consumers)}"
    return filled(_REJECTIONS[type(rejected)], rejected)


def _used_by(keys: Sequence[ClaimKey], consumers: Consumers) -> str:
    return f", used by {_named(keys, consumers)}" if keys else ""


def _gate_off(name: str, what: str) -> str:
    return f"{what}, and the feature gate {name} is off"


_REJECTIONS: dict[type[FilterRejection], str] = {
    CannotEvaluate: "{detail}",
    rejections.DevicePicked: "the same pod has picked it already",
    rejections.BindingConditionsDisabled: _gate_off(
        "DRADeviceBindingConditions", "has binding conditions"
    ),
    rejections.NodeMismatch: "not for node {node}",
    rejections.CountersDisabled: _gate_off("DRAPartitionableDevices", "is a partition"),
    rejections.CapacityMissing: "has no capacity `{capacity}`",
    rejections.CapacityAgainstPolicy: "does not offer {needed} of `{capacity}`",
    rejections.AttributeAbsent: "has no attribute `{attribute}`",
    rejections.AttributeIncomparable: "attribute `{attribute}` cannot be compared",
    rejections.AttributeDiffers: "`{attribute}` is {value}, not {wanted}",
    rejections.AttributeRepeated: "`{attribute}` is {value}, as on a device picked before",
}


def _named(keys: Sequence[ClaimKey], consumers: Consumers) -> str:
    words = [holder(key, consumers) for key in keys]
    return limited(words, len(keys), "claim") or "another claim"


def combined_rejection(rejected: rejections.Rejection, consumers: Consumers = NO_CONSUMERS) -> str:
    """Return why requests that could each be served cannot be served together."""
    match rejected:
        case rejections.TooFewDevices():
            return f"{counted(rejected.needed, 'device')} needed, {number(rejected.free)} free"
        case rejections.TooFewDevicesCombined():
            needed = counted(rejected.needed, "device")
            return f"all requests together need {needed}, {number(rejected.free)} can be used"
        case rejections.NoCommonValue():
            return _no_common_value(rejected)
        case rejections.TooFewValues():
            return (
                f"{counted(rejected.needed, 'device')} that differ in "
                f"{code(rejected.attribute)} needed, "
                f"free ones have {counted(rejected.values, 'value')}"
            )
        case rejections.NoMatchForAllMode():
            return "all devices are requested, and none matches"
        case rejections.TooManyResults():
            return f"{number(rejected.needed)} devices are more than a claim can hold"
        case rejections.NoCombination(last=None):
            return "no combination of devices satisfies all requests"
        case rejections.NoCombination(last=last) if last is not None:
            return (
                "no combination of devices satisfies all requests; "
                f"the last try ended at {last.device.device}: {rejection(last, consumers)}"
            )
    return "no device is free"


def _no_common_value(rejected: rejections.NoCommonValue) -> str:
    needed = f"{counted(rejected.needed, 'device')} with the same {code(rejected.attribute)} needed"
    if not rejected.best:
        return f"{needed}, no free device has it"
    if not rejected.best_value:
        return f"{needed}, its values cannot be compared"
    lacking = counted(rejected.needed - rejected.best, "device")
    best = f"the best value, {code(rejected.best_value)}, is on {number(rejected.best)}"
    return f"{needed}: {best}, {lacking} too few"


def stage_note(stage: FilterCount, consumers: Consumers) -> str:
    """Return a note about the devices that a filter removes; empty if there is nothing to add."""
    if stage.filter.kind is FilterKind.TAKEN:
        return f"held by {holders(stage, consumers)}" if stage.holders else ""
    if stage.rejection is None or stage.filter.is_selector:
        return ""
    name = stage.example.device if stage.example else ""
    return f"{name}: {rejection(stage.rejection, consumers)}"


def facts(filter_facts: FilterFacts) -> list[str]:
    """Return what devices publish of the names in a filter."""
    words = [_mistake(mistake) for mistake in filter_facts.mistakes]
    mistaken = {mistake.name for mistake in filter_facts.mistakes}
    if len(filter_facts.clauses) > 1:
        clauses = filter_facts.clauses
        parts = [f"{number(clause.left)} after {glimpse(clause.text)}" for clause in clauses]
        words.append(f"of {number(filter_facts.devices)}, {listed(parts)}")
    # The clause with the fewest devices before it is the likeliest cause, so it comes first.
    for subject in sorted(filter_facts.subjects, key=operator.attrgetter("total")):
        if subject.devices < subject.total:
            words.append(_presence(subject))
        elif subject.total and subject.name not in mistaken:
            words += _comparisons(subject, filter_facts)
    return words


def _presence(fact: SubjectFact) -> str:
    """Return on how many devices a name exists, and a similar name."""
    name = code(fact.name)
    if fact.devices:
        return f"{name} exists on {number(fact.devices)} of {counted(fact.total, 'device')}"
    nowhere = f"{name} exists on 0 of {counted(fact.total, 'device')}"
    if not fact.similar:
        if fact.domains:
            domains = listed([domain.text for domain in fact.domains])
            return f"{nowhere}; nothing is published of domain {fact.domain}, but of {domains}"
        return nowhere
    close = fact.similar[0]
    where = "all" if close.devices == fact.total else number(close.devices)
    if close.field != fact.field:
        kind = _kind(close.field)
        return f"{nowhere} as {_kind(fact.field)}; {code(close.name)} is {kind} on {where}"
    if close.domain != fact.domain:
        return f"{nowhere} in domain {fact.domain}; in {close.domain} on {where}"
    return f"{nowhere}; {code(close.name)} on {where}"


def _kind(field: str) -> str:
    return "a capacity" if field == CAPACITY else "an attribute"


def _mistake(mistake: TypeMistake) -> str:
    article = {"int": "an integer", "list": "a list"}
    has = article.get(mistake.has, f"a {mistake.has}")
    given = article.get(mistake.given, f"a {mistake.given}")
    return f"{code(mistake.name)} is {has}, {mistake.constant} is {given}"


def _comparisons(fact: SubjectFact, filter_facts: FilterFacts) -> list[str]:
    """Return the values that exist, for a comparison that no device meets."""
    words = []
    for comparison in filter_facts.comparisons:
        if comparison.name != fact.name:
            continue
        if comparison.relation in (">", ">=") and fact.most:
            words.append(f"{code(fact.name)}: the largest is {fact.most}")
        elif comparison.relation in ("<", "<=") and fact.least:
            words.append(f"{code(fact.name)}: the smallest is {fact.least}")
        elif comparison.relation in ("==", "in") and fact.values:
            words.append(f"{code(fact.name)} is {_values(fact.values, fact.distinct)}")
    return list(dict.fromkeys(words))[:1]


def _values(values: Sequence[Count], distinct: int) -> str:
    words = [f"{value.text} on {number(value.devices)}" for value in values]
    return limited(words, distinct, "value")


def _failing_devices(described: faults.SelectorFails) -> str:
    """Return the names of devices; of more than one where only some devices fail."""
    if 1 < described.failing < described.total and described.devices:
        names = [f"{device.pool}/{device.device}" for device in described.devices]
        return f": {limited(names, described.failing, 'device')}"
    return f", such as {described.device.device}" if described.device else ""


def fault(described: Fault) -> str:
    """Return what is wrong and how to correct it."""
    match described:
        case faults.ClassUnknown():
            return _unknown_class(described)
        case faults.SelectorBroken():
            return f"{_selector(described.device_class, described.index)} does not compile"
        case faults.SelectorFails():
            return (
                f"{_selector(described.device_class, described.index)} cannot be evaluated on "
                f"{number(described.failing)} of {counted(described.total, 'device')}"
                f"{_failing_devices(described)}"
            )
        case faults.SelectorTooCostly():
            cost = filled("{cost:,}, more than the limit of {limit:,}", described)
            selector = _selector(described.device_class, described.index)
            return f"{selector} may cost {cost}: compare fewer values"
        case faults.AttributeFails():
            device = described.device.device if described.device else "a device"
            return f"{_EVALUATED[described.kind]} cannot be evaluated on {device}"
    return filled(_FAULTS[type(described)], described)


_FAULTS: dict[type[Fault], str] = {
    faults.ClassMissing: "the request names no device class: set deviceClassName",
    faults.TooManyDevices: (
        "requests {needed:,} devices; a claim can hold at most {limit:,}: use several claims"
    ),
    faults.GateOff: "the feature gate {gate} is off, and the request needs it",
    faults.Unsupported: "{what} is of an unknown kind",
    faults.PoolNotWhole: "all devices are requested, and pool {pool} cannot be used",
    faults.AllAgainstConstraint: (
        "all devices are requested, and a constraint excludes some of them"
    ),
    faults.Other: "{detail}",
}

_EVALUATED = {
    FilterKind.CONSTRAINTS: "a derived attribute",
    FilterKind.CAPACITY: "the requested capacity",
    FilterKind.NODE: "the node selector",
}


def _unknown_class(unknown_class: faults.ClassUnknown) -> str:
    unknown = f"device class {unknown_class.device_class} does not exist"
    if not unknown_class.known:
        return f"{unknown}, nor does any other"
    if unknown_class.similar:
        return f"{unknown}; did you mean {unknown_class.similar[0]}?"
    count = len(unknown_class.known)
    return f"{unknown}; there {to_be(count)} {limited(unknown_class.known, count, 'class')}"


def _selector(device_class: str, index: int) -> str:
    return f"selector {index} of class {device_class}" if device_class else f"selector {index}"


def pool(unusable: UnusablePool) -> str:
    alone = f"pool {unusable.pool} is not used"
    if unusable.invalid_reason:
        return f"{alone} because its slices contradict each other: {unusable.invalid_reason}"
    slices = f"{number(unusable.slices)} of {counted(unusable.expected_slices, 'slice')}"
    return f"{alone} while it is being updated: there are {slices}"


def unreachable(slices: UnreachableSlices) -> str:
    why = filled(_UNREACHABLE[slices.cause], slices)
    return f"{counted(slices.devices, 'device')} of pool {slices.pool} cannot be used: {why}"


_UNREACHABLE = {
    UnreachableReason.NO_SUCH_NODE: "there is no node {detail}",
    UnreachableReason.NO_NODE_MATCHES: "no node matches their node selector",
    UnreachableReason.OLD_GENERATION: "the pool has a newer generation",
    UnreachableReason.GATE_OFF: "the feature gate {detail} is off",
}


def change(
    suggested: SuggestedChange, names: Sequence[ClaimKey], consumers: Consumers = NO_CONSUMERS
) -> str:
    """Return what to change."""
    match suggested:
        case changes.ReplaceSelector():
            return _rewriting(
                f"selector {suggested.index} of request {suggested.request}", suggested
            )
        case changes.ReplaceClassSelector():
            where = f"selector {suggested.index} of class {suggested.device_class}"
            return _rewriting(where, suggested)
        case changes.TolerateTaint(taint=tolerated):
            taints = "all taints" if tolerated is None else f"taint {taint(tolerated)}"
            return f"tolerate {taints} in request {suggested.request}"
        case changes.FewerDevices():
            instead = "all" if not suggested.asked else number(suggested.asked)
            count = number(suggested.count)
            return f"request {count} instead of {instead} in request {suggested.request}"
        case changes.LessCapacity():
            return _other_amounts(suggested)
        case changes.OtherClass():
            instead = f" instead of {suggested.asked}" if suggested.asked else ""
            return f"use class {suggested.device_class}{instead} in request {suggested.request}"
        case changes.DropConstraint():
            kind = "matchAttribute" if suggested.is_match else "distinctAttribute"
            return f"drop the constraint {kind} {suggested.attribute}"
        case changes.DropRequest():
            return f"drop request {suggested.request} of {claim(names[suggested.claim])}"
        case changes.DropClaim():
            return f"drop claim {claim(suggested.name)}"
        case changes.WaitForClaim():
            return f"wait until {ending([suggested.holder], consumers)} ends"
        case changes.WaitForClaims():
            return f"wait until {ending(suggested.holders, consumers)} end"
        case changes.Combined():
            return ", and ".join(change(part, names, consumers) for part in suggested.parts)
    return filled(_CHANGES[type(suggested)], suggested)


_CHANGES: dict[type[SuggestedChange], str] = {
    changes.DropSelector: "drop selector {index} of request {request}",
    changes.DropClassSelector: "drop selector {index} of class {device_class}",
    changes.ReplaceConstraint: "write `{replacement}` instead of `{attribute}` in the constraint",
    changes.EnableGate: "turn on the feature gate {gate}",
}


def _rewriting(
    where: str, suggested: changes.ReplaceSelector | changes.ReplaceClassSelector
) -> str:
    old, new, replacement = suggested.old, suggested.new, suggested.replacement
    match suggested.how:
        case Rewriting.THRESHOLD | Rewriting.VALUE | Rewriting.SPELLING:
            return f"write {code(new)} instead of {code(old)} in {where}"
        case Rewriting.CLAUSE:
            return f"drop the clause {glimpse(old)} of {where}"
        case Rewriting.GUARD:
            return f"skip devices without {code(new)} in {where}: {code(replacement)}"
        case Rewriting.TYPE | Rewriting.FIELD | Rewriting.SYNTAX:
            return f"write {code(replacement)} in {where}"
    return f"write {code(new)} instead of {code(old)} in {where}"


def _other_amounts(suggested: changes.LessCapacity) -> str:
    dropped = [name for name in suggested.asked if name not in suggested.amounts]
    added = [name for name in suggested.amounts if name not in suggested.asked]
    if len(dropped) == len(added) == 1:
        instead = f"{code(added[0])} instead of {code(dropped[0])}"
        return f"request {suggested.amounts[added[0]]} of {instead} in request {suggested.request}"
    words = []
    for name, amount in suggested.amounts.items():
        requested = suggested.asked.get(name)
        if requested is None:
            words.append(f"request {amount} of {code(name)}")
        elif requested != amount:
            words.append(f"request {amount} instead of {requested} of {code(name)}")
    words += [f"do not request {code(name)}" for name in dropped]
    return f"{listed(words)} in request {suggested.request}"
