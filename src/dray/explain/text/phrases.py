"""The words for each verdict, fact, fault and change. `sentences` puts them together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
    """The verb behind a number; amounts of a quota are text."""
    return "is" if str(amount) == "1" else "are"


def plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def code(text: str) -> str:
    """A piece of a manifest, to be copied."""
    return f"`{text}`"


def glimpse(text: str) -> str:
    """A piece of a manifest, to be recognised."""
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
    """The first few, and how many there are besides."""
    shown = list(words[:_SHOWN])
    if total > len(shown):
        rest = total - len(shown)
        shown.append(f"{number(rest)} more {plural(noun) if rest > 1 else noun}")
    return listed(shown)


def claim(key: ClaimKey) -> str:
    return str(key) if key.namespace else key.name or "a claim that is not known"


def device_filter(described: DeviceFilter) -> str:
    """Return the words for the devices that pass a filter."""
    match described.kind:
        case FilterKind.CLASS:
            return (
                f"class {described.device_class}, selector {described.index}: "
                f"{glimpse(described.expression)}"
            )
        case FilterKind.SELECTOR:
            return f"selector {described.index}: {glimpse(described.expression)}"
        case FilterKind.NODE:
            return "for the node"
        case FilterKind.FEATURES:
            return "not kept away by a feature gate"
        case FilterKind.TAINTS:
            return "without a taint that is not tolerated"
        case FilterKind.TAKEN:
            return "not taken by other claims"
        case FilterKind.CAPACITY:
            return "with enough capacity left"
        case FilterKind.GROUPS:
            return "compatible with what is in use"
        case FilterKind.COUNTERS:
            return "with enough of their counters left"
        case FilterKind.CONSTRAINTS:
            return "with the attributes that constraints compare"


def shortage(each: DeviceFilter, needed: int) -> str:
    """Why nodes do not have what a request needs, by the gate at which they fall short."""
    is_one, are_many = _PASSING[each.kind]
    if each.is_selector:
        place = f"selector {each.index}" if each.kind is FilterKind.SELECTOR else each.device_class
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
    FilterKind.FEATURES: ("is let through by feature gates", "are let through by feature gates"),
    FilterKind.TAINTS: ("is free of taints", "are free of taints"),
    FilterKind.TAKEN: ("is free", "are free"),
    FilterKind.CAPACITY: ("has enough capacity left", "have enough capacity left"),
    FilterKind.GROUPS: ("goes with those in use", "go with those in use"),
    FilterKind.COUNTERS: ("has enough of its counters left", "have enough of their counters left"),
    FilterKind.CONSTRAINTS: ("has the constraint's attribute", "have the constraint's attribute"),
}
"""What is said of one device, and of several."""


def holders(stage: FilterCount) -> str:
    words = [
        f"{claim(holder.claim)} ({number(holder.devices)})"
        if holder.devices > 1
        else claim(holder.claim)
        for holder in stage.holders
    ]
    return limited(words, stage.holding, "claim")


def taint(each: DeviceTaint) -> str:
    value = f"={each.value}" if each.value else ""
    return f"{each.key}{value}:{each.effect}"


def rejection(found: FilterRejection) -> str:
    """What a gate has against a device."""
    match found:
        case CannotEvaluate():
            return found.detail
        case rejections.DeviceInUse():
            return f"held by {_named(found.holders)}"
        case rejections.DevicePicked():
            return "the same pod has picked it already"
        case rejections.BindingConditionsDisabled():
            return _gate_off("DRADeviceBindingConditions", "has binding conditions")
        case rejections.SelectorNotMatched():
            of_class = f" of class {found.device_class}" if found.device_class else ""
            return f"selector {found.index}{of_class} is false"
        case rejections.NodeMismatch():
            return f"not for node {found.node}"
        case rejections.NodeOperationsDisabled():
            skipped = f"skips {listed(found.operations)}"
            if found.node_lacks_feature:
                return f"{skipped}, and the node does not declare DRAOptionalNodeOperations"
            return _gate_off("DRAOptionalNodeOperations", skipped)
        case rejections.CountersDisabled():
            return _gate_off("DRAPartitionableDevices", "is a partition")
        case rejections.TaintNotTolerated():
            return f"taint {taint(found.taint)} is not tolerated"
    return _amount(found)


def _amount(found: rejections.DeviceRejection) -> str:
    """What there is too little of, or what does not compare."""
    match found:
        case rejections.CapacityMissing():
            return f"has no capacity {code(found.capacity)}"
        case rejections.CapacityAgainstPolicy():
            return f"does not hand out {found.needed} of {code(found.capacity)}"
        case rejections.InsufficientCapacity():
            used = f", used by {_named(found.holders)}" if found.holders else ""
            return (
                f"has {found.available} of {found.total} {code(found.capacity)} left, "
                f"{found.needed} is needed{used}"
            )
        case rejections.GroupsIncompatible():
            own = listed(found.groups) or "none"
            present = listed(found.present) or "none"
            return (
                f"groups {own} do not go with {present} on {code(found.counter_set)}, "
                f"in use by {_named(found.holders)}"
            )
        case rejections.InsufficientCounter():
            used = f", used by {_named(found.holders)}" if found.holders else ""
            counter = f"counter {code(found.counter)} in {code(found.counter_set)}"
            return f"needs {found.needed} of {counter}, {found.available} is left{used}"
        case rejections.AttributeAbsent():
            return f"has no attribute {code(found.attribute)}"
        case rejections.AttributeIncomparable():
            return f"attribute {code(found.attribute)} cannot be compared"
        case rejections.AttributeDiffers():
            return f"{code(found.attribute)} is {found.value}, not {found.wanted}"
        case rejections.AttributeRepeated():
            return f"{code(found.attribute)} is {found.value}, as on a device picked before"
    return str(found.check)


def _gate_off(name: str, what: str) -> str:
    return f"{what}, and the feature gate {name} is off"


def _named(keys: Sequence[ClaimKey]) -> str:
    return limited([claim(key) for key in keys], len(keys), "claim") or "another claim"


def combined_rejection(found: rejections.Rejection) -> str:
    """Why requests that could each be served cannot be served together."""
    match found:
        case rejections.TooFewDevices():
            return f"{counted(found.needed, 'device')} needed, {number(found.free)} free"
        case rejections.TooFewDevicesCombined():
            needed = counted(found.needed, "device")
            return f"all requests together need {needed}, {number(found.free)} can be had"
        case rejections.NoCommonValue():
            return _no_common_value(found)
        case rejections.TooFewValues():
            return (
                f"{counted(found.needed, 'device')} that differ in {code(found.attribute)} needed, "
                f"free ones have {counted(found.values, 'value')}"
            )
        case rejections.NoMatchForAllMode():
            return "all devices are asked for, and none matches"
        case rejections.TooManyResults():
            return f"{number(found.needed)} devices are more than a claim can have"
        case rejections.NoCombination(last=None):
            return "no combination of devices satisfies all requests"
        case rejections.NoCombination(last=last) if last is not None:
            return (
                "no combination of devices satisfies all requests; "
                f"the last try ended at {last.device.device}: {rejection(last)}"
            )
    return "no device is free"


def _no_common_value(found: rejections.NoCommonValue) -> str:
    wanted = f"{counted(found.needed, 'device')} with the same {code(found.attribute)} needed"
    if not found.best:
        return f"{wanted}, no free device has it"
    if not found.best_value:
        return f"{wanted}, its values cannot be compared"
    lacking = counted(found.needed - found.best, "device")
    best = f"the best value, {code(found.best_value)}, is on {number(found.best)}"
    return f"{wanted}: {best}, {lacking} too few"


def stage_note(stage: FilterCount) -> str:
    """What is worth saying about the devices that a gate keeps away."""
    if stage.filter.kind is FilterKind.TAKEN:
        return f"held by {holders(stage)}" if stage.holders else ""
    if stage.rejection is None or stage.filter.is_selector:
        return ""
    name = stage.example.device if stage.example else ""
    return f"{name}: {rejection(stage.rejection)}"


def facts(found: FilterFacts, told: Collection[str] = ()) -> list[str]:
    """What devices publish of the things that a gate names; `told` are corrections shown anyway."""
    words = [_mistake(mistake, told) for mistake in found.mistakes]
    mistaken = {mistake.name for mistake in found.mistakes}
    if len(found.clauses) > 1:
        parts = [f"{number(clause.left)} after {glimpse(clause.text)}" for clause in found.clauses]
        words.append(f"of {number(found.devices)}, {listed(parts)}")
    # The fewer devices came to the clause that names it, the more it has to do with the end.
    for subject in sorted(found.subjects, key=lambda each: each.total):
        if subject.devices < subject.total:
            words.append(_presence(subject))
        elif subject.total and subject.name not in mistaken:
            words += _comparisons(subject, found)
    return words


def _presence(fact: SubjectFact) -> str:
    """On how many devices a name exists, and what may have been meant."""
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
        kind = "a capacity" if close.field == CAPACITY else "an attribute"
        return f"{nowhere} as {_kind(fact.field)}; {code(close.name)} is {kind} on {where}"
    if close.domain != fact.domain:
        return f"{nowhere} in domain {fact.domain}; in {close.domain} on {where}"
    return f"{nowhere}; {code(close.name)} on {where}"


def _kind(field: str) -> str:
    return "a capacity" if field == CAPACITY else "an attribute"


def _mistake(found: TypeMistake, told: Collection[str]) -> str:
    article = {"int": "an integer", "list": "a list"}
    has = article.get(found.has, f"a {found.has}")
    given = article.get(found.given, f"a {found.given}")
    words = f"{code(found.name)} is {has}, {found.constant} is {given}"
    if not found.correction or found.correction in told:
        return words
    return f"{words}: write {code(found.correction)}"


def _comparisons(fact: SubjectFact, found: FilterFacts) -> list[str]:
    """What values there are, where none is the one that is compared with."""
    words = []
    for comparison in found.comparisons:
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


def fault(found: Fault) -> str:
    """What is wrong, and what to do about it."""
    match found:
        case faults.ClassUnknown():
            return _unknown_class(found)
        case faults.ClassMissing():
            return "the request names no device class: set deviceClassName"
        case faults.SelectorBroken():
            return f"{_selector(found.device_class, found.index)} does not compile"
        case faults.SelectorFails():
            device = f", such as {found.device.device}" if found.device else ""
            return (
                f"{_selector(found.device_class, found.index)} cannot be evaluated on "
                f"{number(found.failing)} of {counted(found.total, 'device')}{device}"
            )
        case faults.SelectorTooCostly():
            return (
                f"{_selector(found.device_class, found.index)} may cost {number(found.cost)}, "
                f"more than the limit of {number(found.limit)}: compare fewer values"
            )
        case faults.AttributeFails():
            device = found.device.device if found.device else "a device"
            return f"{_EVALUATED[found.kind]} cannot be evaluated on {device}"
        case faults.TooManyDevices():
            return (
                f"{number(found.needed)} devices are asked for; a claim can have "
                f"{number(found.limit)}: use several claims"
            )
        case faults.GateOff():
            return f"the feature gate {found.gate} is off, and the request needs it"
        case faults.Unsupported():
            return f"{found.what} is of a kind that is not known"
        case faults.PoolNotWhole():
            return f"all devices are asked for, and pool {found.pool} cannot be used"
        case faults.AllAgainstConstraint():
            return "all devices are asked for, and a constraint forbids to have them together"
        case faults.Other():
            return found.detail
    return ""


_EVALUATED = {
    FilterKind.CONSTRAINTS: "a derived attribute",
    FilterKind.CAPACITY: "the capacity that is asked for",
    FilterKind.NODE: "the node selector",
}


def _unknown_class(found: faults.ClassUnknown) -> str:
    unknown = f"device class {found.device_class} does not exist"
    if not found.known:
        return f"{unknown}, nor does any other"
    if found.similar:
        return f"{unknown}; did you mean {found.similar[0]}?"
    verb = to_be(len(found.known))
    return f"{unknown}; there {verb} {limited(found.known, len(found.known), 'class')}"


def _selector(device_class: str, index: int) -> str:
    return f"selector {index} of class {device_class}" if device_class else f"selector {index}"


def pool(found: UnusablePool) -> str:
    alone = f"pool {found.pool} is left alone"
    if found.invalid_reason:
        return f"{alone} because its slices contradict each other: {found.invalid_reason}"
    slices = f"{number(found.slices)} of {counted(found.expected_slices, 'slice')}"
    return f"{alone} while it is being updated: there are {slices}"


def unreachable(found: UnreachableSlices) -> str:
    what = f"{counted(found.devices, 'device')} of pool {found.pool} cannot be had"
    match found.cause:
        case UnreachableReason.NO_SUCH_NODE:
            return f"{what}: there is no node {found.detail}"
        case UnreachableReason.NO_NODE_MATCHES:
            return f"{what}: no node matches their node selector"
        case UnreachableReason.OLD_GENERATION:
            return f"{what}: the pool has a newer generation"
        case UnreachableReason.GATE_OFF:
            return f"{what}: the feature gate {found.detail} is off"


def change(found: SuggestedChange, names: Sequence[ClaimKey]) -> str:
    """What to do."""
    match found:
        case changes.ReplaceSelector():
            where = f"selector {found.index} of request {found.request}"
            return _rewriting(where, found.how, found.old, found.new, found.replacement)
        case changes.ReplaceClassSelector():
            where = f"selector {found.index} of class {found.device_class}"
            return _rewriting(where, found.how, found.old, found.new, found.replacement)
        case changes.DropSelector():
            return f"drop selector {found.index} of request {found.request}"
        case changes.DropClassSelector():
            return f"drop selector {found.index} of class {found.device_class}"
        case changes.TolerateTaint(taint=None):
            return f"tolerate all taints in request {found.request}"
        case changes.TolerateTaint(taint=each) if each is not None:
            return f"tolerate taint {taint(each)} in request {found.request}"
        case changes.FewerDevices():
            instead = "all there are" if not found.asked else number(found.asked)
            return f"ask for {number(found.count)} instead of {instead} in request {found.request}"
        case changes.LessCapacity():
            return _other_amounts(found)
        case changes.OtherClass():
            instead = f" instead of {found.asked}" if found.asked else ""
            return f"use class {found.device_class}{instead} in request {found.request}"
        case changes.ReplaceConstraint():
            instead = f"{code(found.replacement)} instead of {code(found.attribute)}"
            return f"write {instead} in the constraint"
        case changes.DropConstraint():
            kind = "matchAttribute" if found.is_match else "distinctAttribute"
            return f"drop the constraint {kind} {found.attribute}"
        case changes.DropRequest():
            return f"do without request {found.request} of {claim(names[found.claim])}"
        case changes.DropClaim():
            return f"do without claim {claim(found.name)}"
        case changes.WaitForClaim():
            return f"wait until {claim(found.holder)} ends"
        case changes.EnableGate():
            return f"turn on the feature gate {found.gate}"
    return ""


def _rewriting(where: str, how: Rewriting, old: str, new: str, replacement: str) -> str:
    match how:
        case Rewriting.THRESHOLD | Rewriting.VALUE | Rewriting.SPELLING:
            return f"ask for {new} instead of {old} in {where}"
        case Rewriting.CLAUSE:
            return f"drop the clause {glimpse(old)} of {where}"
        case Rewriting.GUARD:
            return f"pass over devices without {code(new)} in {where}: {code(replacement)}"
        case Rewriting.TYPE:
            return f"write {code(replacement)} in {where}"
        case Rewriting.FIELD:
            return f"write {code(replacement)} in {where}"
    return f"write {code(new)} instead of {code(old)} in {where}"


def _other_amounts(found: changes.LessCapacity) -> str:
    dropped = [name for name in found.asked if name not in found.amounts]
    added = [name for name in found.amounts if name not in found.asked]
    if len(dropped) == len(added) == 1:
        instead = f"{code(added[0])} instead of {code(dropped[0])}"
        return f"ask for {found.amounts[added[0]]} of {instead} in request {found.request}"
    words = []
    for name, amount in found.amounts.items():
        asked = found.asked.get(name)
        if asked is None:
            words.append(f"ask for {amount} of {code(name)}")
        elif asked != amount:
            words.append(f"ask for {amount} instead of {asked} of {code(name)}")
    words += [f"do not ask for {code(name)}" for name in dropped]
    return f"{listed(words)} in request {found.request}"
