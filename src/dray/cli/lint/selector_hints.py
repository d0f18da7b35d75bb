"""Corrections of CEL selectors, each of which is compiled and tried on devices.

`candidates` makes small corrections of what people commonly write; `corrected` combines up to three
of them until the selector compiles and, where devices are known, matches one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.ids import PoolId
from dray.api.types.dra import Device
from dray.cli.lint.field_changes import SetField
from dray.cli.lint.findings import Suggestion
from dray.explain.selectors import expressions, selector_report, spelling, text_corrections
from dray.explain.selectors.expressions import (
    ATTRIBUTES,
    CAPACITY,
    QUANTITY,
    SEMVER,
    SelectorSubject,
)
from dray.explain.selectors.selector_report import Report
from dray.explain.selectors.text_corrections import Correction

Devices = Sequence[tuple[PoolId, Device]]

_ROUNDS = 3
_TRIES = 120


def suggestions(
    field: str, expression: str, features: Features, domains: Sequence[str] = ()
) -> Iterator[Suggestion]:
    """Yield the correction of a selector that does not compile.

    `domains` are those that its object names elsewhere, for attributes without one.
    """
    found = corrected(expression, features)
    for domain in domains[:1] if found is None else ():
        for candidate in text_corrections.with_domain(expression, domain):
            if not selector_report.make(candidate.text, features, ()).error:
                found = candidate
    if found is not None:
        yield _suggestion(field, found)


def on_devices(
    field: str, expression: str, features: Features, devices: Devices
) -> Iterator[Suggestion]:
    """Yield the correction of a selector that compiles and matches none of the devices."""
    found = corrected(expression, features, devices)
    if found is not None:
        yield _suggestion(field, found)


def thresholds(
    field: str, expression: str, features: Features, devices: Devices
) -> Iterator[Suggestion]:
    """Yield the selector with the largest amount that a device has."""
    for compared in expressions.comparisons(expression):
        if compared.subject.field != CAPACITY or compared.relation not in (">", ">="):
            continue
        amounts = [amount for pair in devices if (amount := _amount(compared.subject, *pair))]
        most = max(amounts, key=quantity.parse, default="")
        new = expressions.replaced(expression, compared.span, expressions.written(most))
        if most and _is_good(selector_report.make(new, features, devices)):
            words = f"The largest {compared.subject.name} is {most}.\nWould match: {new}"
            yield Suggestion(words, (SetField(field, new),), is_correction=False)


def _amount(subject: SelectorSubject, pool: PoolId, device: Device) -> str:
    """Return the capacity of a device as it is published, or ""."""
    name = subject.name if subject.domain == pool.driver else f"{subject.domain}/{subject.name}"
    capacity = device.capacity.get(name) or device.capacity.get(f"{subject.domain}/{subject.name}")
    return capacity.value if capacity is not None else ""


def _suggestion(field: str, found: Correction) -> Suggestion:
    reason = f"{found.reason}\n" if found.reason else ""
    return Suggestion(f"{reason}Did you mean: {found.text}", (SetField(field, found.text),))


def corrected(expression: str, features: Features, devices: Devices = ()) -> Correction | None:
    """Return a selector that compiles and, if there are devices, matches one; None without one."""
    tries = 0
    seen = {expression}
    current = [Correction(expression, "")]
    for _ in range(_ROUNDS):
        following: list[Correction] = []
        for base in current:
            report = selector_report.make(base.text, features, devices)
            for text, reason in candidates(base.text, report, devices):
                tries += 1
                if text in seen or tries > _TRIES:
                    continue
                seen.add(text)
                reasons = " ".join(dict.fromkeys(filter(None, (base.reason, reason))))
                found = Correction(text, reasons)
                if _is_good(selector_report.make(text, features, devices)):
                    return found
                following.append(found)
        current = following
    return None


def _is_good(report: Report) -> bool:
    if report.error:
        return False
    has_errors = any(shape.answer == selector_report.ERROR for shape in report.shapes)
    return not report.devices or (report.matched > 0 and not has_errors)


def candidates(text: str, report: Report, devices: Devices) -> Iterator[Correction]:
    """Yield small corrections of a selector, the likeliest first."""
    yield from text_corrections.corrections(text)
    if not report.error:
        yield from _by_devices(text, report, devices)
    yield from _quantities(text)


def _quantities(text: str) -> Iterator[Correction]:
    """Compare capacities as quantities."""
    for compared in expressions.comparisons(text):
        if compared.subject.field != CAPACITY:
            continue
        is_quantity = compared.form == QUANTITY and compared.is_method
        constant = str(compared.constant)
        if "memory" in compared.subject.name and constant.isdecimal() and len(constant) < 6:
            # Nobody asks for 40 bytes.
            gibibytes = expressions.replaced(text, compared.span, f'"{constant}Gi"')
            for other in expressions.comparisons(gibibytes):
                new = expressions.converted(gibibytes, other, QUANTITY)
                if other.span.start == compared.span.start and new is not None:
                    yield Correction(new, f"Without a unit, {constant} means bytes.")
        new = None if is_quantity else expressions.converted(text, compared, QUANTITY)
        if new is not None:
            reason = "A capacity is a quantity, which is compared with compareTo()."
            yield Correction(new, reason)


def _by_devices(text: str, report: Report, devices: Devices) -> Iterator[Correction]:
    """Correct names, types and values by what devices publish."""
    for read in report.reads:
        subject = SelectorSubject(read.field, read.domain, read.name)
        for close in read.similar:
            other = SelectorSubject(close.field, close.domain, close.name)
            new = expressions.renamed(text, subject, other)
            yield Correction(new, _rename_reason(subject, other))
    yield from _of_drivers(text, devices)
    for compared in expressions.comparisons(text):
        published = _published(compared.subject, devices)
        yield from _typed(text, compared, published)
        yield from _valued(text, compared, published)
    for read in report.reads:
        if 0 < read.devices < report.devices:
            subject = SelectorSubject(read.field, read.domain, read.name)
            reason = f"Not every device has {read.name}."
            yield Correction(expressions.guarded(text, subject), reason)


def _of_drivers(text: str, devices: Devices) -> Iterator[Correction]:
    """Replace the name of a driver by those that publish devices."""
    drivers = {pool.driver for pool, _ in devices}
    for driver in spelling.similar_domains(expressions.driver_of(text), drivers):
        for new in expressions.with_driver(text, driver):
            yield Correction(new, f"The driver is {driver}.")


def _rename_reason(subject: SelectorSubject, other: SelectorSubject) -> str:
    if subject.field != other.field:
        now = "a capacity" if other.field == CAPACITY else "an attribute"
        return f"{other.name} is {now}."
    if subject.domain != other.domain:
        return f"The domain of {other.name} is {other.domain}, not {subject.domain}."
    return f"The devices have {other.name}, not {subject.name}."


def _published(subject: SelectorSubject, devices: Devices) -> dict[str, set[str]]:
    """Return the values that devices publish, by type: string, int, bool or version."""
    values: dict[str, set[str]] = {}
    for pool, device in devices:
        attribute = device.attributes.get(f"{subject.domain}/{subject.name}")
        if attribute is None and subject.domain == pool.driver:
            attribute = device.attributes.get(subject.name)
        for kind in ("string", "int", "bool", "version") if attribute is not None else ():
            value = getattr(attribute, f"{kind}_value")
            if value is not None:
                values.setdefault(kind, set()).add(str(value))
    return values


def _typed(
    text: str, compared: expressions.Comparison, published: dict[str, set[str]]
) -> Iterator[Correction]:
    if compared.subject.field != ATTRIBUTES or len(published) != 1:
        return
    (kind,) = published
    wanted = SEMVER if kind == "version" else kind
    given = compared.form or type(compared.constant).__name__.replace("str", "string")
    if wanted == given:
        return
    new = expressions.converted(text, compared, wanted)
    if new is not None and new != text:
        article = "an integer" if kind == "int" else f"a {kind}"
        yield Correction(new, f"{compared.subject.name} is {article}.")


def _valued(
    text: str, compared: expressions.Comparison, published: dict[str, set[str]]
) -> Iterator[Correction]:
    """Replace a text by published ones that are spelt differently or contain it."""
    if not isinstance(compared.constant, str):
        return
    values = sorted(published.get("string", ()))
    for part in spelling.parts_in_other_case(compared.constant, values):
        new = expressions.replaced(text, compared.span, expressions.written(part))
        yield Correction(new, f"{compared.subject.name} is {expressions.written(values[0])}.")
    if compared.relation not in ("==", "in"):
        return
    word = compared.constant.lower()
    close = [
        *spelling.same_but_spelling(compared.constant, values),
        *(value for value in values if word in value.lower() or value.lower() in word),
        *spelling.similar(compared.constant, values),
    ]
    for value in dict.fromkeys(close):
        new = expressions.replaced(text, compared.span, expressions.written(value))
        yield Correction(new, f"{compared.subject.name} is {expressions.written(value)}.")
