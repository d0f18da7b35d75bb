"""Rules for one device of a slice; some of them return in the results of an allocation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from dray.api.features import Features
from dray.api.formats import quantity
from dray.api.types import dra
from dray.validation import equality, fields, identifiers, lists, memo, selector_rules
from dray.validation.dra import capacities, taints

ATTRIBUTES_AND_CAPACITIES_MAX_ITEMS: Final = 32
ATTRIBUTE_VALUES_MAX_ITEMS: Final = 48
ATTRIBUTE_VALUE_MAX_BYTES: Final = 64
BINDING_CONDITIONS_MAX_ITEMS: Final = 4
COUNTERS_MAX_ITEMS: Final = 32
CONSUMED_COUNTER_SETS_MAX_ITEMS: Final = 2
TAINTS_MAX_ITEMS: Final = 16

# The devices of a fleet agree in nearly all attributes.
_valid_attributes = memo.ValidMemberCache()

_REACHABLE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def device(
    value: dra.Device,
    old: dra.Device | None,
    path: fields.Path,
    selects_nodes: bool,
    features: Features,
) -> fields.Errors:
    """Check a device; with `selects_nodes` it names its own nodes."""
    yield from identifiers.dns_label(value.name, path.child("name"))
    yield from _sizes(value, path)
    yield from _valid_attributes.check(
        value.attributes, lambda attributes: _attributes(attributes, path.child("attributes"))
    )
    if old is None or not equality.are_equal(old.capacity, value.capacity):
        yield from _capacity(value, path.child("capacity"), features)
    if old is None or old.taints != value.taints:
        yield from lists.limited(value.taints, TAINTS_MAX_ITEMS, taints.taint, path.child("taints"))
    yield from lists.limited_set(
        value.consumes_counters,
        CONSUMED_COUNTER_SETS_MAX_ITEMS,
        _consumption,
        lambda consumption: consumption.counter_set,
        path.child("consumesCounters"),
        covered=True,
    )
    yield from _reachable(value, path, selects_nodes)
    yield from binding_conditions(value.binding_conditions, value.binding_failure_conditions, path)
    for name, resource in value.node_allocatable_resources.items():
        yield from _node_allocatable(
            name, resource, value, path.child("nodeAllocatableResources").key(name)
        )


def _sizes(value: dra.Device, path: fields.Path) -> fields.Errors:
    entries = len(value.attributes) + len(value.capacity)
    if entries > ATTRIBUTES_AND_CAPACITIES_MAX_ITEMS:
        yield fields.invalid(
            path,
            entries,
            "the total number of attributes and capacities must not exceed "
            f"{ATTRIBUTES_AND_CAPACITIES_MAX_ITEMS}",
        )
    values = sum(map(_value_count, value.attributes.values()))
    if values > ATTRIBUTE_VALUES_MAX_ITEMS:
        yield fields.invalid(
            path,
            values,
            f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX_ITEMS}",
        )


def has_list_value(attribute: dra.DeviceAttribute) -> bool:
    return bool(
        attribute.int_values
        or attribute.bool_values
        or attribute.string_values
        or attribute.version_values
    )


def _value_count(attribute: dra.DeviceAttribute) -> int:
    if not has_list_value(attribute):
        return 1
    return (
        len(attribute.int_values)
        + len(attribute.bool_values)
        + len(attribute.string_values)
        + len(attribute.version_values)
    )


def _attributes(attributes: Mapping[str, dra.DeviceAttribute], path: fields.Path) -> fields.Errors:
    yield from lists.mapped(
        attributes,
        identifiers.qualified_name,
        _attribute,
        path,
        longest_key_shown=identifiers.ATTRIBUTE_NAME_MAX_BYTES,
    )


def _attribute(attribute: dra.DeviceAttribute, path: fields.Path) -> fields.Errors:
    if attribute.string_value is not None:
        yield from _string(attribute.string_value, path.child("string"))
    if attribute.version_value is not None:
        yield from _version(attribute.version_value, path.child("version"))
    for index, text in enumerate(attribute.string_values):
        yield from fields.covered(_string(text, path.child("strings").index(index)), "maxBytes")
    yield from lists.each_item(attribute.version_values, _version, path.child("versions"))
    forms = forms_used(attribute)
    if len(forms) != 1:
        yield fields.invalid(
            path,
            attribute if forms else "",
            "exactly one value must be specified",
            origin="union",
            covered=True,
        )


ATTRIBUTE_FORMS: Final = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(dra.DeviceAttribute)
)


def forms_used(attribute: dra.DeviceAttribute) -> list[str]:
    """Return which of int, bool, string … are set; a list counts if it has items."""
    return [form for name, form in ATTRIBUTE_FORMS if getattr(attribute, name) not in (None, ())]


def _string(text: str, path: fields.Path) -> fields.Errors:
    yield from fields.limited_bytes(path, text, ATTRIBUTE_VALUE_MAX_BYTES)


_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_SEMANTIC_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?",
    re.ASCII,
)


def _version(text: str, path: fields.Path) -> fields.Errors:
    if not _SEMANTIC_VERSION.fullmatch(text):
        yield fields.invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _string(text, path)


def _capacity(value: dra.Device, path: fields.Path, features: Features) -> fields.Errors:
    def shared(capacity: dra.DeviceCapacity, capacity_path: fields.Path) -> fields.Errors:
        return capacities.shared_capacity(capacity, capacity_path, features)

    yield from lists.mapped(
        value.capacity,
        identifiers.qualified_name,
        shared if value.allow_multiple_allocations else capacities.exclusive_capacity,
        path,
        longest_key_shown=identifiers.ATTRIBUTE_NAME_MAX_BYTES,
    )


def _consumption(value: dra.DeviceCounterConsumption, path: fields.Path) -> fields.Errors:
    yield from counters(
        value.counter_set, path.child("counterSet"), value.counters, path.child("counters")
    )


def counters(
    name: str, name_path: fields.Path, values: dict[str, dra.Counter], values_path: fields.Path
) -> fields.Errors:
    """Check a shared or consumed counter set: its name and its counters."""
    if name:
        yield from fields.covered(identifiers.dns_label(name, name_path))
    else:
        yield fields.required(name_path, covered=True)
    if not values:
        yield fields.required(values_path, covered=True)
    elif len(values) > COUNTERS_MAX_ITEMS:
        yield fields.too_many(values_path, len(values), COUNTERS_MAX_ITEMS)
    else:
        for counter in values:
            yield from fields.covered(identifiers.dns_label(counter, values_path))


def _reachable(value: dra.Device, path: fields.Path, selects_nodes: bool) -> fields.Errors:
    chosen = selector_rules.chosen(
        nodeName=value.node_name,
        nodeSelector=value.node_selector is not None,
        allNodes=value.all_nodes,
    )
    if not selects_nodes:
        if chosen or value.node_name is not None or value.all_nodes is not None:
            yield fields.invalid(
                path,
                None,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            )
        return
    if value.node_name == "":
        yield fields.invalid(path.child("nodeName"), "", "must not be empty")
    elif value.node_name is not None:
        yield from identifiers.object_name(value.node_name, path.child("nodeName"))
    if value.node_selector is not None:
        yield from selector_rules.node_selector(value.node_selector, path.child("nodeSelector"))
    yield from selector_rules.true_if_set(value.all_nodes, path.child("allNodes"))
    if not chosen:
        yield fields.required(path, _REACHABLE)
    elif len(chosen) > 1:
        yield fields.invalid(path, f"{{{', '.join(chosen)}}}", _REACHABLE)


def binding_conditions(
    conditions: tuple[str, ...], failure_conditions: tuple[str, ...], path: fields.Path
) -> fields.Errors:
    """Check binding and failure conditions: both or neither, no name twice."""
    binding, failure = path.child("bindingConditions"), path.child("bindingFailureConditions")
    for values, values_path in ((conditions, binding), (failure_conditions, failure)):
        yield from lists.limited(
            values,
            BINDING_CONDITIONS_MAX_ITEMS,
            identifiers.label_name,
            values_path,
            size_covered=True,
        )
    yield from lists.distinct(conditions, lists.itself, binding)
    yield from lists.distinct(failure_conditions, lists.itself, failure)
    for index, condition in enumerate(failure_conditions):
        if condition in conditions:
            yield fields.invalid(
                failure.index(index),
                condition,
                "bindingFailureConditions must not overlap with bindingConditions",
            )
    if failure_conditions and not conditions:
        yield fields.invalid(
            binding, None, "bindingConditions are required to use bindingFailureConditions"
        )
    if conditions and not failure_conditions:
        yield fields.invalid(
            failure, None, "bindingFailureConditions are required to use bindingConditions"
        )


def skipped_node_operations(operations: tuple[str, ...], path: fields.Path) -> fields.Errors:
    if "NodePrepareResources" in operations and not (
        {"NodeUnprepareResources", "*"} & set(operations)
    ):
        yield fields.invalid(
            path,
            operations,
            "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped",
        )


def _node_allocatable(
    name: str, resource: dra.NodeAllocatableResource, value: dra.Device, path: fields.Path
) -> fields.Errors:
    """Check the CPU, memory and huge pages that a device takes from or adds to its node."""
    if not identifiers.is_node_allocatable(name):
        yield fields.invalid(path, name, "must be a node allocatable resource name")
    if resource.mapping is None and resource.overhead is None:
        yield fields.required(path, "at least one of mapping or overhead must be set")
    if resource.mapping is not None:
        yield from _mapping(resource.mapping, value, path.child("mapping"))
    if resource.overhead is not None:
        yield from _overhead(resource.overhead, path.child("overhead"))


def _mapping(
    mapping: dra.NodeAllocatableMapping, value: dra.Device, path: fields.Path
) -> fields.Errors:
    key = mapping.capacity_key
    multiplier = path.child("capacityMultiplier")
    if key is not None:
        if not key:
            yield fields.invalid(
                path.child("capacityKey"), "", "capacityKey must not be an empty string"
            )
        elif key not in value.capacity:
            yield fields.not_found(path.child("capacityKey"), key)
        if mapping.capacity_multiplier is None:
            yield _dependent(multiplier, "capacityMultiplier is required when capacityKey is set")
        else:
            yield from _positive(mapping.capacity_multiplier, multiplier)
    if mapping.device_multiplier is not None:
        yield from _positive(mapping.device_multiplier, path.child("deviceMultiplier"))
    if key is None and mapping.capacity_multiplier is not None:
        yield _dependent(
            path.child("capacityKey"), "capacityKey is required when capacityMultiplier is set"
        )


def _dependent(path: fields.Path, detail: str) -> fields.FieldError:
    return fields.required(path, detail, origin="dependentRequired", covered=True)


def _positive(text: str, path: fields.Path) -> fields.Errors:
    number = quantity.parse(text)
    if number.sign() <= 0:
        yield fields.invalid(path, str(number), "must be positive")


def _overhead(overhead: dra.NodeAllocatableOverhead, path: fields.Path) -> fields.Errors:
    if overhead.per_pod is None and overhead.per_container is None:
        yield fields.invalid(path, "", "at least one of perPod or perContainer must be set")
    for field, text in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if text is not None:
            number = quantity.parse(text)
            if number.sign() < 0:
                yield fields.invalid(path.child(field), str(number), "must be non-negative")
