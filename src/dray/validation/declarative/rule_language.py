"""The language of declarative rules: the rules of a field and their evaluation.

Follows apimachinery, pkg/api/validate. A field that an update leaves as it was is not checked
again, so that a rule may become stricter without breaking what is stored. `declarations` says
which field has which rules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from dray.api.features import Features
from dray.validation import equality, fields, memo


class Operation(NamedTuple):
    is_update: bool
    features: Features


Rule = Callable[[Any, Any, fields.Path, Operation], fields.Errors]
"""A check of a value, with the value it had before an update (None if there was none)."""


class Struct:
    """Rules for a struct as a whole and for its fields, in this order."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules

    def __call__(
        self, value: Any, old: Any, path: fields.Path, operation: Operation
    ) -> fields.Errors:
        for rule in self._rules:
            yield from rule(value, old, path, operation)


class Repeating(Struct):
    """A struct that many new objects share: those that were found sound are not checked again."""

    def __init__(self, *rules: Rule) -> None:
        super().__init__(*rules)
        self._sound = memo.ValidValueCache()

    def __call__(
        self, value: Any, old: Any, path: fields.Path, operation: Operation
    ) -> fields.Errors:
        check = super().__call__
        if old is not None:
            return check(value, old, path, operation)
        return self._sound.check(value, operation, lambda: check(value, old, path, operation))


class _Field:
    """Rules for one field.

    Stops are checked first, also for a value that an update removes; if one reports an error, the
    rules are skipped.
    """

    def __init__(self, attribute: str, stops: tuple[Rule, ...], rules: tuple[Rule, ...]) -> None:
        self._attribute = attribute
        self._name = _wire_name(attribute)
        self._stops = stops
        self._rules = rules

    def __call__(
        self, struct: Any, old_struct: Any, path: fields.Path, operation: Operation
    ) -> fields.Errors:
        value = getattr(struct, self._attribute)
        is_absent = self._may_be_absent(value)
        if is_absent and not (operation.is_update and self._stops):
            return
        old = getattr(old_struct, self._attribute) if old_struct is not None else None
        if operation.is_update and old_struct is not None and equality.are_equal(value, old):
            return
        path = path.child(self._name)
        for stop in self._stops:
            errors = list(stop(value, old, path, operation))
            yield from errors
            if errors:
                return
        if is_absent:
            return
        for rule in self._rules:
            yield from rule(value, old, path, operation)

    def _may_be_absent(self, value: Any) -> bool:
        return False


class _OptionalField(_Field):
    def _may_be_absent(self, value: Any) -> bool:
        return not value


class _OptionalPointer(_Field):
    def _may_be_absent(self, value: Any) -> bool:
        return value is None


def _wire_name(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join("ID" if word == "id" else word.capitalize() for word in others)


def field(attribute: str, *rules: Rule, stops: tuple[Rule, ...] = ()) -> Rule:
    return _Field(attribute, stops, rules)


def optional(attribute: str, *rules: Rule, stops: tuple[Rule, ...] = ()) -> Rule:
    """Check a field unless it is empty."""
    return _OptionalField(attribute, stops, rules)


def optional_pointer(attribute: str, *rules: Rule, stops: tuple[Rule, ...] = ()) -> Rule:
    """Check a field unless it is absent; zero is a value."""
    return _OptionalPointer(attribute, stops, rules)


def required(attribute: str, *rules: Rule, stops: tuple[Rule, ...] = ()) -> Rule:
    return _Field(attribute, (_is_set, *stops), rules)


def required_pointer(attribute: str, *rules: Rule) -> Rule:
    """Require a field, which may be zero."""
    return _Field(attribute, (_is_present,), rules)


def _is_set(value: Any, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
    if not value:
        yield fields.required(path)


def _is_present(value: Any, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
    if value is None:
        yield fields.required(path)


def immutable(_value: Any, _old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
    """Reject any change; called only for changed values."""
    if operation.is_update:
        yield fields.invalid(path, None, "field is immutable", origin="immutable")


def no_modification(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
    """Reject replacement; setting and clearing are allowed."""
    if operation.is_update and value is not None and old is not None:
        yield fields.invalid(path, None, "field cannot be modified once set", origin="update")


def no_setting(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
    """Reject a field that was absent when the object was created."""
    if operation.is_update and value is not None and old is None:
        yield fields.invalid(path, None, "field cannot be set once created", origin="update")


def no_clearing(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
    if operation.is_update and value is None and old is not None:
        yield fields.invalid(path, None, "field cannot be cleared once set", origin="update")


def same_items(key: Callable[[Any], Hashable]) -> Rule:
    """Reject items that come or go; those that stay may change."""

    def rule(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        if not operation.is_update:
            return
        before, now = {key(item) for item in old or ()}, {key(item) for item in value}
        for index, item in enumerate(value):
            if key(item) not in before:
                yield fields.forbidden(path.index(index), "item may not be added")
        for item in old or ():
            if key(item) not in now:
                yield fields.forbidden(path, "item may not be removed")

    return rule


def allowed_with(gate: str) -> Rule:
    """Allow a field only if the feature is enabled."""

    def rule(value: Any, _old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        if value is not None and not getattr(operation.features, gate):
            yield fields.forbidden(path, "")

    return rule


def max_items(maximum: int) -> Rule:
    return lambda value, _old, path, _operation: fields.limited_items(
        path, value, maximum, origin="maxItems"
    )


def max_bytes(maximum: int) -> Rule:
    return lambda value, _old, path, _operation: fields.limited_bytes(
        path, value, maximum, origin="maxBytes"
    )


def max_characters(maximum: int) -> Rule:
    def rule(value: str, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
        if len(value) > maximum:
            yield fields.too_long(path, maximum, "character", origin="maxLength")

    return rule


def minimum(least: int) -> Rule:
    def rule(value: int, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
        if value < least:
            detail = f"must be greater than or equal to {least}"
            yield fields.invalid(path, value, detail, origin="minimum")

    return rule


def maximum(most: int) -> Rule:
    def rule(value: int, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
        if value > most:
            detail = f"must be less than or equal to {most}"
            yield fields.invalid(path, value, detail, origin="maximum")

    return rule


def one_of(*values: str) -> Rule:
    supported = sorted(values)
    return lambda value, _old, path, _operation: fields.one_of(path, value, supported)


def unique(key: Callable[[Any], Hashable] | None = None) -> Rule:
    """Reject two items with the same key or, without a key, the same item twice."""

    def rule(value: Any, _old: Any, path: fields.Path, _operation: Operation) -> fields.Errors:
        seen: set[Hashable] = set()
        for index, item in enumerate(value):
            item_key = key(item) if key else item
            if item_key in seen:
                yield fields.duplicate(path.index(index), item)
            seen.add(item_key)

    return rule


def each_item(rule: Rule, key: Callable[[Any], Hashable] | None = None) -> Rule:
    """Check each item; with a key, an item is compared with its old version."""

    def items(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        former = {key(item): item for item in reversed(old or ())} if key else {}
        for index, item in enumerate(value):
            old_item = former.get(key(item)) if key else None
            if not (operation.is_update and _is_same(item, old_item)):
                yield from rule(item, old_item, path.index(index), operation)

    return items


def each_value(rule: Rule, *, repeats: bool = False) -> Rule:
    """Check each value of a map.

    With `repeats`, many new maps share values, and the rule depends on nothing but the value: then
    those that were found valid are not checked again.
    """
    valid = memo.ValidMemberCache()

    def values(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        if not repeats or old:
            return changed(value, old, path, operation)
        return valid.check(value, lambda unknown: changed(unknown, old, path, operation))

    def changed(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        for key, item in value.items():
            old_item = old.get(key) if old else None
            if not (operation.is_update and _is_same(item, old_item)):
                yield from rule(item, old_item, path.key(key), operation)

    return values


def _is_same(item: Any, old_item: Any) -> bool:
    return old_item is not None and equality.are_equal(item, old_item)


def each_key(rule: Rule) -> Rule:
    """Check each new key of a map; errors are reported at the map."""

    def keys(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        for key in value:
            if not (operation.is_update and old and key in old):
                yield from rule(key, None, path, operation)

    return keys


def union(*attributes: tuple[str, str]) -> Rule:
    """Require exactly one of these (attribute, field)."""
    listed = ", ".join(f"`{name}`" for _, name in attributes)

    def members(struct: Any) -> list[str]:
        return [name for attribute, name in attributes if is_set(getattr(struct, attribute))]

    def rule(value: Any, old: Any, path: fields.Path, operation: Operation) -> fields.Errors:
        chosen = members(value)
        if operation.is_update and old is not None and members(old) == chosen:
            return
        if not chosen:
            yield fields.invalid(path, "", f"must specify one of: {listed}", origin="union")
        elif len(chosen) > 1:
            yield fields.invalid(
                path,
                f"{{{', '.join(chosen)}}}",
                f"must specify exactly one of: {listed}",
                origin="union",
            )

    return rule


def is_set(value: Any) -> bool:
    return value is not None and value != ()
