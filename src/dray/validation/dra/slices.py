"""Rules for ResourceSlice: its pool, from where its devices are reachable, its counter sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.api.features import Features
from dray.api.types import dra, meta
from dray.validation import fields, identifiers, lists, metadata, selector_rules
from dray.validation.dra import devices

DEVICES_MAX_ITEMS: Final = 128
ADVANCED_DEVICES_MAX_ITEMS: Final = 64
COUNTER_SETS_MAX_ITEMS: Final = 8

_REACHABLE = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def resource_slice(value: dra.ResourceSlice, features: Features) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False)
    yield from _spec(value.spec, None, features)


def resource_slice_update(
    new: dra.ResourceSlice, old: dra.ResourceSlice, features: Features
) -> fields.Errors:
    yield from metadata.updated(new.metadata, old.metadata)
    yield from _spec(new.spec, old.spec, features)


def _spec(
    spec: dra.ResourceSliceSpec, old: dra.ResourceSliceSpec | None, features: Features
) -> fields.Errors:
    path = fields.SPEC
    yield from identifiers.driver_name(spec.driver, path.child("driver"))
    yield from _pool(spec.pool, path.child("pool"))
    if old is not None:
        yield from _identity_unchanged(spec, old, path)
    yield from _reachable(spec, path)
    if spec.shared_counters and spec.devices:
        yield fields.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _devices(spec, old, path.child("devices"), features)
    yield from lists.limited_set(
        spec.shared_counters,
        COUNTER_SETS_MAX_ITEMS,
        _counter_set,
        lambda counter_set: counter_set.name,
        path.child("sharedCounters"),
        covered=True,
    )
    if spec.partition_type_attribute is not None:
        yield from _partition_type(spec, spec.partition_type_attribute, path)
    yield from devices.skipped_node_operations(
        spec.skip_node_operations, path.child("skipNodeOperations")
    )


def _pool(pool: dra.ResourcePool, path: fields.Path) -> fields.Errors:
    yield from identifiers.pool_name(pool.name, path.child("name"))
    if pool.resource_slice_count <= 0:
        yield fields.invalid(
            path.child("resourceSliceCount"), pool.resource_slice_count, "must be greater than zero"
        )
    if pool.generation < 0:
        yield fields.invalid(
            path.child("generation"), pool.generation, "must be greater than or equal to zero"
        )


def _identity_unchanged(
    spec: dra.ResourceSliceSpec, old: dra.ResourceSliceSpec, path: fields.Path
) -> fields.Errors:
    yield from fields.immutable(path.child("pool").child("name"), spec.pool.name, old.pool.name)
    yield from fields.immutable(path.child("driver"), spec.driver, old.driver)
    yield from fields.immutable(path.child("nodeName"), spec.node_name, old.node_name)


def _reachable(spec: dra.ResourceSliceSpec, path: fields.Path) -> fields.Errors:
    if spec.node_name == "":
        yield fields.invalid(
            path.child("nodeName"), "", "must be either unset or set to a non-empty string"
        )
    elif spec.node_name is not None:
        yield from identifiers.object_name(spec.node_name, path.child("nodeName"))
    if spec.node_selector is not None:
        yield from _node_selector(spec.node_selector, path.child("nodeSelector"))
    yield from selector_rules.true_if_set(spec.all_nodes, path.child("allNodes"))
    yield from selector_rules.true_if_set(
        spec.per_device_node_selection, path.child("perDeviceNodeSelection")
    )
    chosen = selector_rules.chosen(
        nodeName=spec.node_name,
        nodeSelector=spec.node_selector is not None,
        allNodes=spec.all_nodes,
        perDeviceNodeSelection=spec.per_device_node_selection,
    )
    if not chosen:
        yield fields.required(path, _REACHABLE)
    elif len(chosen) > 1:
        yield fields.invalid(
            path, f"{{{', '.join(chosen)}}}", f"{_REACHABLE}, but multiple fields are set"
        )


def _node_selector(selector: meta.NodeSelector, path: fields.Path) -> fields.Errors:
    """Require a single term, so that selectors of several slices are easy to merge."""
    yield from selector_rules.node_selector(selector, path)
    if len(selector.node_selector_terms) != 1:
        yield fields.invalid(
            path.child("nodeSelectorTerms"),
            selector.node_selector_terms,
            "must have exactly one node selector term",
        )


def _devices(
    spec: dra.ResourceSliceSpec,
    old: dra.ResourceSliceSpec | None,
    path: fields.Path,
    features: Features,
) -> fields.Errors:
    old_devices = {device.name: device for device in reversed(old.devices)} if old else {}
    per_device = bool(spec.per_device_node_selection)

    def device(value: dra.Device, device_path: fields.Path) -> fields.Errors:
        yield from devices.device(
            value, old_devices.get(value.name), device_path, per_device, features
        )

    yield from lists.limited_set(
        spec.devices,
        ADVANCED_DEVICES_MAX_ITEMS if _is_advanced(spec.devices) else DEVICES_MAX_ITEMS,
        device,
        lambda value: value.name,
        path,
    )


def _is_advanced(values: Sequence[dra.Device]) -> bool:
    """Return whether devices use what makes a slice large; such slices hold fewer of them."""
    return any(
        device.taints
        or device.consumes_counters
        or any(map(devices.has_list_value, device.attributes.values()))
        for device in values
    )


def _counter_set(value: dra.CounterSet, path: fields.Path) -> fields.Errors:
    yield from devices.counters(
        value.name, path.child("name"), value.counters, path.child("counters")
    )


def _partition_type(
    spec: dra.ResourceSliceSpec, attribute: str, path: fields.Path
) -> fields.Errors:
    """Require the attribute, as a string, of devices that consume counters."""
    consumers = [
        (index, device) for index, device in enumerate(spec.devices) if device.consumes_counters
    ]
    if not consumers:
        yield fields.invalid(
            path.child("partitionTypeAttribute"),
            attribute,
            "may only be set on a slice which declares devices that consume counters",
        )
        return
    if any(identifiers.fully_qualified_name(attribute, path)):
        return
    for index, device in consumers:
        attribute_path = path.child("devices").index(index).child("attributes").key(attribute)
        yield from _partition_type_of(device, attribute, spec.driver, attribute_path)


def _partition_type_of(
    device: dra.Device, attribute: str, driver: str, path: fields.Path
) -> fields.Errors:
    bare = attribute.removeprefix(f"{driver}/")
    value = device.attributes.get(attribute) or device.attributes.get(bare)
    if value is None:
        yield fields.required(
            path,
            "device consumes counters and `partitionTypeAttribute` names this attribute, "
            "so it must be set",
        )
    elif value.string_value is None:
        yield fields.invalid(
            path,
            value,
            "must be a string value because `partitionTypeAttribute` names this attribute",
        )
