"""Class and request selectors and derived attributes, evaluated once per device shape.

A compiled expression lists the paths that it reads. Devices that agree in these have one result,
which is cached for the whole cluster. A result is True, False, or the text of an evaluation error.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dray.allocator.inventory import shapes
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.model import attributes, rejections
from dray.allocator.model.attributes import Value
from dray.allocator.model.candidates import Candidate, DeviceMatches
from dray.api.features import Features
from dray.api.types.dra import Device
from dray.cel import device as cel
from dray.cel.runtime.values import CostExceeded, EvaluationError

_SHAPES_LIMIT = 1 << 13
_EXPRESSIONS_LIMIT = 1 << 14
_FEW = 4
_MISSING_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class CachedSelector:
    """One selector and its cached results."""

    __slots__ = ("_compiled", "_many", "_read", "_read_one", "_results", "paths")

    def __init__(self, compiled: cel.Selector) -> None:
        self._compiled = compiled
        self.paths = () if compiled.error else tuple(sorted(compiled.reads))
        """The paths that the expression reads; devices that agree in them have one result."""
        self._read = shapes.reader(self.paths)
        self._read_one = shapes.reader_of_one(self.paths)
        self._results: dict[Hashable, bool | str] = {}
        self._many = _FEW + 2 * len(self.paths)
        """With more attributes, a device is not worth being viewed as a whole."""

    def matches(self, inventory: NodeInventory, among: int = -1) -> DeviceMatches:
        """Return the matching devices of a node; the answer for others than `among` is open."""
        if self._compiled.error is not None:
            return DeviceMatches(0, inventory.everything)
        # A shape has only what the expression reads. An attribute without a value elsewhere on the
        # device is an error nevertheless, whatever the cached result of the shape.
        matching, failing = 0, inventory.unusable
        for shape, members in inventory.group_by_shape(self.paths, self._read, among):
            if not members & among:
                continue
            result = self._results.get(shape)
            if result is None:
                usable = members & ~failing
                if not usable:
                    continue
                result = self._cache(shape, next(inventory.members(usable)))
            if result is True:
                matching |= members
            elif result is not False:
                failing |= members
        return DeviceMatches(matching & ~failing, failing)

    def result(self, candidate: Candidate) -> bool | str:
        """Return whether the device matches, or the text of the evaluation error."""
        return self.result_on(candidate, is_usable=shapes.is_usable(candidate.device))

    def result_on(self, candidate: Candidate, *, is_usable: bool) -> bool | str:
        """Return `result` of a device of which it is known whether it `shapes.is_usable`."""
        if self._compiled.error is not None:
            return self._compiled.error.detail
        if not is_usable:
            return self._evaluate(candidate)
        shape = self._read_one(candidate)
        cached = self._results.get(shape)
        return self._cache(shape, candidate) if cached is None else cached

    def accepts(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Return for each device whether it matches; an error counts as no match."""
        if self._compiled.error is not None:
            return [False] * len(candidates)
        matches = []
        for candidate, shape in zip(candidates, self._read(candidates), strict=True):
            result = self._results.get(shape)
            if result is None:
                is_usable = shapes.is_usable(candidate.device)
                result = is_usable and self._cache(shape, candidate)
            matches.append(result is True)
        return matches

    def failure_on(self, candidate: Candidate) -> str:
        """Return upstream's message for an error, after the number of the selector."""
        if self._compiled.error is not None:
            return f": CEL compile error: {self._compiled.error.detail}"
        return f" on device {candidate.id}: CEL runtime error: {self.result(candidate)}"

    def _cache(self, shape: Hashable, candidate: Candidate) -> bool | str:
        view = None
        if len(candidate.device.attributes) > self._many:
            view = self._compiled.narrow_view(candidate.driver, candidate.device)
        if len(self._results) >= _SHAPES_LIMIT:
            self._results.clear()
        result = self._results[shape] = self._evaluate(candidate, view)
        return result

    def _evaluate(self, candidate: Candidate, view: cel.DeviceView | None = None) -> bool | str:
        try:
            return self._compiled.matches(view or _view(candidate))
        except (EvaluationError, CostExceeded) as error:
            return _with_hint(str(error))


class CachedDerivedAttribute:
    """One derived attribute and its cached values."""

    __slots__ = ("_compiled", "_read", "_to_value", "_values")

    def __init__(self, compiled: cel.DerivedAttribute, compares_lists: bool) -> None:
        self._compiled = compiled
        self._read = shapes.reader_of_one(() if compiled.error else sorted(compiled.reads))
        self._to_value = attributes.set_value if compares_lists else attributes.scalar_value
        self._values: dict[Hashable, Value | str] = {}

    def value(self, candidate: Candidate, name: str) -> Value:
        """Return the value as constraints compare it.

        Raises AllocationError if the expression cannot be compiled or evaluated.
        """
        if self._compiled.error is not None:
            detail = self._compiled.error.detail
            raise rejections.AllocationError(f"compile derived attribute {name} failed: {detail}")
        value = self._remembered(candidate)
        if isinstance(value, str):
            raise rejections.AllocationError(
                f"evaluate derived attribute {name} on device {candidate.id} failed: {value}"
            )
        return value

    def _remembered(self, candidate: Candidate) -> Value | str:
        # As for selectors: a shape does not have the attributes that are errors by themselves.
        if not shapes.is_usable(candidate.device):
            return self._evaluate(candidate)
        shape = self._read(candidate)
        value = self._values.get(shape)
        if value is None:
            if len(self._values) >= _SHAPES_LIMIT:
                self._values.clear()
            value = self._values[shape] = self._evaluate(candidate)
        return value

    def _evaluate(self, candidate: Candidate) -> Value | str:
        try:
            return self._to_value(self._compiled.evaluate(_view(candidate)))
        except (EvaluationError, CostExceeded) as error:
            return str(error)


class Selectors:
    """The expressions in use, compiled for the feature gates that are on."""

    def __init__(self, features: Features) -> None:
        self._compares_lists = features.list_type_attributes
        self._gates = {
            "consumable_capacity": features.consumable_capacity,
            "list_type_attributes": features.list_type_attributes,
        }
        self._selectors: dict[str, CachedSelector] = {}
        self._derived: dict[str, CachedDerivedAttribute] = {}

    def selector(self, expression: str) -> CachedSelector:
        cached = self._selectors.get(expression)
        if cached is None:
            if len(self._selectors) >= _EXPRESSIONS_LIMIT:
                self._selectors.clear()
            compiled = cel.compile_selector(expression, stored=True, **self._gates)
            cached = self._selectors[expression] = CachedSelector(compiled)
        return cached

    def derived(self, expression: str) -> CachedDerivedAttribute:
        cached = self._derived.get(expression)
        if cached is None:
            if len(self._derived) >= _EXPRESSIONS_LIMIT:
                self._derived.clear()
            compiled = cel.compile_derived_attribute(expression, stored=True, **self._gates)
            cached = CachedDerivedAttribute(compiled, self._compares_lists)
            self._derived[expression] = cached
        return cached


_VIEWS_LIMIT = 1 << 11
_views: dict[tuple[int, str], tuple[Device, cel.DeviceView]] = {}
"""The latest views, by the identity of the device, which is kept with its view."""


def _view(candidate: Candidate) -> cel.DeviceView:
    # The selectors of a request are evaluated one after the other on the same devices.
    device, driver = candidate.device, candidate.driver
    known = _views.get((id(device), driver))
    if known is None:
        if len(_views) >= _VIEWS_LIMIT:
            _views.clear()
        known = _views[id(device), driver] = device, cel.view(driver, device)
    return known[1]


def _with_hint(error: str) -> str:
    # As upstream: EnhanceRuntimeError in
    # https://github.com/kubernetes/kubernetes/blob/release-1.37/staging/src/k8s.io/dynamic-resource-allocation/cel/errors.go
    if "no such key:" in error and _MISSING_KEY_HINT not in error:
        return error + _MISSING_KEY_HINT
    return error
