"""A report on a selector: cost, attributes it reads, and its result per distinct device shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dray.allocator.model import attributes
from dray.api.features import Features
from dray.api.ids import PoolId
from dray.api.types.dra import Device
from dray.cel import device as cel
from dray.cel.device import Selector
from dray.cel.runtime import values
from dray.explain.selectors import expressions, repairs, spelling, typed_values
from dray.explain.selectors.expressions import ATTRIBUTES, CAPACITY, QUANTITY, SelectorSubject

SIMILAR_SHOWN = 3

YES, NO, ERROR = "yes", "no", "error"
ABSENT = "<none>"


class SimilarName(msgspec.Struct, frozen=True):
    """A similar name, and the number of devices that have it."""

    field: str
    domain: str
    name: str
    devices: int


class Read(msgspec.Struct, frozen=True):
    """An attribute or a capacity that the expression reads."""

    field: str
    domain: str
    name: str
    devices: int
    """The number of devices that have it."""
    similar: tuple[SimilarName, ...] = ()


class DeviceShape(msgspec.Struct, frozen=True):
    """Devices that agree in everything that the expression reads."""

    values: tuple[str, ...]
    devices: int
    answer: str
    error: str = ""
    example: str = ""


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    expression: str
    error: str = ""
    cost: int = 0
    cost_limit: int = values.COST_LIMIT
    reads: tuple[Read, ...] = ()
    shapes: tuple[DeviceShape, ...] = ()
    devices: int = 0
    matched: int = 0
    rewrites: tuple[str, ...] = ()
    """Corrected versions of the expression."""


def make(
    expression: str, features: Features, devices: Iterable[tuple[PoolId, Device]] = ()
) -> Report:
    selector = cel.compile_selector(
        expression,
        stored=False,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )
    all_devices = list(devices)
    published = _published(all_devices)
    subjects = expressions.subjects_read(expression, selector)
    reads = tuple(_read(subject, published) for subject in subjects)
    if selector.error is not None:
        return Report(
            expression=expression,
            error=selector.error.detail,
            reads=reads,
            devices=len(all_devices),
            rewrites=tuple(_repaired(expression, published, features)),
        )
    shapes = tuple(_shapes(selector, subjects, all_devices))
    return Report(
        expression=expression,
        cost=selector.estimated_cost,
        reads=reads,
        shapes=shapes,
        devices=len(all_devices),
        matched=sum(shape.devices for shape in shapes if shape.answer == YES),
        rewrites=tuple(
            text
            for text in dict.fromkeys(_rewrites(expression, reads, shapes, all_devices))
            if _is_sound(text, features, all_devices)
        ),
    )


def _published(devices: Iterable[tuple[PoolId, Device]]) -> Counter[SelectorSubject]:
    """Return the number of devices for each name. Devices of one model have the same names."""
    alike = Counter(
        (pool.driver, tuple(device.attributes), tuple(device.capacity)) for pool, device in devices
    )
    counts: Counter[SelectorSubject] = Counter()
    for (driver, of_attributes, of_capacity), count in alike.items():
        for field, names in ((ATTRIBUTES, of_attributes), (CAPACITY, of_capacity)):
            for name in names:
                counts[SelectorSubject.published(field, driver, name)] += count
    return counts


def _read(subject: SelectorSubject, published: Counter[SelectorSubject]) -> Read:
    devices = published[subject]
    close = [] if devices else spelling.similar_subjects(subject, published)[:SIMILAR_SHOWN]
    return Read(*subject, devices, tuple(SimilarName(*name, published[name]) for name in close))


def _shapes(
    selector: Selector, subjects: list[SelectorSubject], devices: Iterable[tuple[PoolId, Device]]
) -> Iterator[DeviceShape]:
    """Yield one shape per combination of values that are read, the most common first."""
    groups: dict[Hashable, list[tuple[PoolId, Device]]] = {}
    for pool, device in devices:
        view = cel.view(pool.driver, device)
        groups.setdefault(selector.shape(view), []).append((pool, device))
    for members in sorted(groups.values(), key=len, reverse=True):
        pool, device = members[0]
        result, error = _answer(selector, pool, device)
        shown = tuple(_value(subject, pool, device) for subject in subjects)
        example = f"{pool.driver}/{pool.pool}/{device.name}"
        yield DeviceShape(shown, len(members), result, error, example)


def _answer(selector: Selector, pool: PoolId, device: Device) -> tuple[str, str]:
    try:
        return (YES if selector.matches(cel.view(pool.driver, device)) else NO), ""
    except (values.EvaluationError, values.CostExceeded) as error:
        return ERROR, str(error)


def _value(subject: SelectorSubject, pool: PoolId, device: Device) -> str:
    """Return a device's value of a subject, as its slice publishes it."""
    published: dict[str, Any] = dict(
        device.attributes if subject.field == ATTRIBUTES else device.capacity
    )
    value = published.get(f"{subject.domain}/{subject.name}")
    if value is None and subject.domain == pool.driver:
        value = published.get(subject.name)
    if value is None:
        return ABSENT
    first = next(iter(msgspec.to_builtins(value).values()), "")
    return str(first).lower() if isinstance(first, bool) else str(first)


def _rewrites(
    expression: str,
    reads: Sequence[Read],
    shapes: Sequence[DeviceShape],
    devices: Sequence[tuple[PoolId, Device]],
) -> Iterator[str]:
    """Yield corrected expressions: similar names, types, and guards for missing attributes."""
    for read in reads:
        subject = SelectorSubject(read.field, read.domain, read.name)
        for close in read.similar[:1]:
            other = SelectorSubject(close.field, close.domain, close.name)
            yield _retyped(expressions.renamed(expression, subject, other), devices)
    retyped = _retyped(expression, devices)
    if retyped != expression:
        yield retyped
    for number, read in enumerate(reads):
        if read.devices and any(_lacks(shape, number) for shape in shapes):
            yield expressions.guarded(
                expression, SelectorSubject(read.field, read.domain, read.name)
            )


def _lacks(shape: DeviceShape, number: int) -> bool:
    """Return whether devices fail because they lack what is read."""
    return shape.answer == ERROR and shape.values[number] == ABSENT


def _repaired(
    expression: str, published: Iterable[SelectorSubject], features: Features
) -> Iterator[str]:
    text = repairs.repaired(expression, published, features)
    if text is not None:
        yield text


def _retyped(text: str, devices: Sequence[tuple[PoolId, Device]]) -> str:
    """Return the expression with constants of the types that the devices publish."""
    for number in range(len(expressions.comparisons(text))):
        compared = expressions.comparisons(text)[number]
        kinds = {_kind(compared.subject, pool, device) for pool, device in devices} - {""}
        if len(kinds) == 1:
            (kind,) = kinds
            function = typed_values.FUNCTION_OF.get(kind, kind)
            text = expressions.converted(text, compared, function) or text
    return text


def _kind(subject: SelectorSubject, pool: PoolId, device: Device) -> str:
    """Return the type of a device's value, or an empty string if it has none."""
    name = f"{subject.domain}/{subject.name}"
    if subject.field == CAPACITY:
        own = subject.name if subject.domain == pool.driver else name
        return QUANTITY if name in device.capacity or own in device.capacity else ""
    attribute = attributes.lookup(device, pool.driver, name)
    return "" if attribute is None else attributes.set_value(attribute).kind


def _is_sound(text: str, features: Features, devices: Sequence[tuple[PoolId, Device]]) -> bool:
    """Return whether an expression compiles, and has a result for devices with what it reads."""
    selector = expressions.compiled(text, features)
    if selector.error is not None:
        return False
    subjects = expressions.subjects_read(text, selector)
    having = [
        (pool, device)
        for pool, device in devices
        if all(_kind(subject, pool, device) for subject in subjects)
    ]
    return any(_answer(selector, pool, device)[0] != ERROR for pool, device in having)
