"""The feature gates, one frozen value passed explicitly.

Stages, defaults, locks and needs are those of Kubernetes (pkg/features/kube_features.go); the
checks are those of component-base/featuregate. `Dray…` gates are our own and exist in every
version. Nothing here is global state: whoever wants other gates passes another value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

import msgspec


class Features(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """The enabled feature gates of one Kubernetes version."""

    version: str

    admin_access: bool
    consumable_capacity: bool
    derived_attributes: bool
    device_binding_conditions: bool
    device_compatibility_groups: bool
    device_taint_rules: bool
    device_taints: bool
    extended_resource: bool
    fractional_capacity_range: bool
    list_type_attributes: bool
    node_allocatable_resources: bool
    optional_node_operations: bool
    partitionable_devices: bool
    partitionable_devices_type: bool
    prioritized_list: bool
    resource_claim_device_status: bool
    resource_claim_granular_status_authorization: bool
    resource_pool_status: bool
    scheduler_filter_timeout: bool
    workload_resource_claims: bool

    dynamic_resource_allocation: bool
    generic_workload: bool
    kubelet_pod_resources_dynamic_resources: bool
    node_declared_features: bool
    resource_health_status: bool
    resource_health_status_message: bool

    exclusive_devices: bool
    gang_search: bool
    partition_request: bool
    preemption: bool


class FeatureError(ValueError):
    """Gates that cannot be set so; the text has one sentence for each."""


class Stage(msgspec.Struct, frozen=True):
    """The stage of a gate from one minor version of Kubernetes 1 on, until its next stage."""

    since: int
    level: str
    default: bool = False
    locked: bool = False


class Gate(msgspec.Struct, frozen=True):
    name: str
    stages: tuple[Stage, ...]
    needs: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub("^(DRA|Dray)", "", self.name)).lower()

    def stage_in(self, version: str) -> Stage:
        minor = _minor(version)
        return [_PRE_ALPHA, *(stage for stage in self.stages if stage.since <= minor)][-1]


def _alpha(since: int) -> Stage:
    return Stage(since, "alpha")


def _beta(since: int, default: bool) -> Stage:
    return Stage(since, "beta", default=default)


def _ga(since: int, locked: bool) -> Stage:
    return Stage(since, "GA", default=True, locked=locked)


_ON, _OFF = True, False
_LOCKED, _UNLOCKED = True, False
_PRE_ALPHA = Stage(0, "pre-alpha")
_DRA = "DynamicResourceAllocation"

GATES: Mapping[str, Gate] = {
    gate.name: gate
    for gate in (
        Gate("DRAAdminAccess", (_alpha(32), _beta(34, _ON), _ga(36, _LOCKED)), (_DRA,)),
        Gate("DRAConsumableCapacity", (_alpha(34), _beta(36, _ON)), (_DRA,)),
        Gate("DRADerivedAttributes", (_alpha(37),), (_DRA,)),
        Gate(
            "DRADeviceBindingConditions",
            (_alpha(34), _beta(36, _ON)),
            (_DRA, "DRAResourceClaimDeviceStatus"),
        ),
        Gate("DRADeviceCompatibilityGroups", (_alpha(37),), (_DRA, "DRAPartitionableDevices")),
        Gate(
            "DRADeviceTaintRules",
            (_alpha(35), _beta(36, _OFF), _ga(37, _UNLOCKED)),
            ("DRADeviceTaints",),
        ),
        Gate("DRADeviceTaints", (_alpha(33), _beta(36, _ON), _ga(37, _UNLOCKED)), (_DRA,)),
        Gate("DRAExtendedResource", (_alpha(34), _beta(36, _ON), _ga(37, _LOCKED)), (_DRA,)),
        # On by default only where nothing older than 1.37 has to understand the objects; a stock
        # 1.37 keeps compatibility with 1.36, so there it is off.
        Gate("DRAFractionalCapacityRange", (_beta(37, _OFF),), ("DRAConsumableCapacity",)),
        Gate("DRAListTypeAttributes", (_alpha(36),), (_DRA,)),
        Gate("DRANodeAllocatableResources", (_alpha(36),), (_DRA,)),
        Gate("DRAOptionalNodeOperations", (_alpha(37),), (_DRA, "NodeDeclaredFeatures")),
        Gate("DRAPartitionableDevices", (_alpha(33), _beta(36, _ON)), (_DRA,)),
        Gate(
            "DRAPartitionableDevicesType",
            (_alpha(37),),
            (_DRA, "DRAPartitionableDevices", "DRAResourcePoolStatus"),
        ),
        Gate(
            "DRAPrioritizedList",
            (_alpha(33), _beta(34, _ON), _ga(36, _UNLOCKED), _ga(37, _LOCKED)),
            (_DRA,),
        ),
        Gate("DRAResourceClaimDeviceStatus", (_alpha(32), _beta(33, _ON), _ga(37, _LOCKED))),
        Gate(
            "DRAResourceClaimGranularStatusAuthorization",
            (_beta(36, _ON),),
            (_DRA, "DRAResourceClaimDeviceStatus"),
        ),
        Gate("DRAResourcePoolStatus", (_alpha(36),), (_DRA,)),
        Gate("DRASchedulerFilterTimeout", (_beta(34, _ON),), (_DRA,)),
        Gate("DRAWorkloadResourceClaims", (_alpha(36), _beta(37, _OFF)), (_DRA, "GenericWorkload")),
        Gate(_DRA, (_alpha(26), _beta(32, _OFF), _ga(34, _UNLOCKED), _ga(35, _LOCKED))),
        Gate("GenericWorkload", (_alpha(35), _beta(37, _OFF))),
        Gate("KubeletPodResourcesDynamicResources", (_alpha(27), _beta(34, _ON), _ga(36, _LOCKED))),
        Gate("NodeDeclaredFeatures", (_alpha(35), _beta(36, _ON), _ga(37, _LOCKED))),
        Gate("ResourceHealthStatus", (_alpha(31), _beta(36, _ON)), (_DRA,)),
        Gate("ResourceHealthStatusMessage", (_beta(36, _ON),), ("ResourceHealthStatus",)),
        Gate("DrayExclusiveDevices", (_ga(0, _UNLOCKED),), (_DRA,)),
        Gate("DrayGangSearch", (_alpha(0),), (_DRA,)),
        Gate("DrayPartitionRequest", (_ga(0, _UNLOCKED),), (_DRA,)),
        Gate("DrayPreemption", (_alpha(0),), (_DRA,)),
    )
}

# What sets every gate of one level that is not named itself.
_LEVEL_OF_GROUP = {"AllAlpha": "alpha", "AllBeta": "beta"}

VERSIONS = ("1.34", "1.35", "1.36", "1.37")


def for_version(version: str) -> Features:
    """Return the default gates of a Kubernetes version."""
    if version not in VERSIONS:
        raise FeatureError(
            f"unknown Kubernetes version {version!r}: use one of {_listed(VERSIONS)}"
        )
    defaults = {gate.field: gate.stage_in(version).default for gate in GATES.values()}
    return Features(version=version, **defaults)


def parse(text: str, base: Features | None = None) -> Features:
    """Return `base` (by default `DEFAULT`) with the gates of `text` ("A=true,B=false") set."""
    return with_gates(base or DEFAULT, _read_pairs(text))


def with_gates(base: Features, changes: Mapping[str, bool]) -> Features:
    """Return `base` with some gates changed. Raises FeatureError if Kubernetes refuses them."""
    complaints = [text for name, on in changes.items() for text in _refusals(name, on, base)]
    if complaints:
        raise FeatureError("; ".join(complaints))
    result = msgspec.structs.replace(base, **_values_by_field(base, changes))
    complaints = list(_unmet_needs(result))
    if complaints:
        raise FeatureError("; ".join(complaints))
    return result


def is_enabled(features: Features, gate: str) -> bool:
    """Return whether the gate of that Kubernetes name is on."""
    return bool(getattr(features, GATES[gate].field))


_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def exists_in(gate: str, version: str) -> bool:
    """Return whether a Kubernetes version has the gate."""
    return GATES[gate].stage_in(version) is not _PRE_ALPHA


def on_since(gate: str) -> str:
    """Return the first version in which the gate is on by default, or "" if there is none."""
    on = (version for version in VERSIONS if GATES[gate].stage_in(version).default)
    return next(on, "")


def _read_pairs(text: str) -> dict[str, bool]:
    gates = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise FeatureError(f"missing bool value for {name}: write {name}=true or {name}=false")
        if value not in _TRUE | _FALSE:
            raise FeatureError(f"invalid value of {name}={value}: write true or false")
        gates[name] = value in _TRUE
    return gates


def _refusals(name: str, on: bool, base: Features) -> Iterator[str]:
    if name in _LEVEL_OF_GROUP:
        return
    if name not in GATES:
        yield f"unrecognized feature gate: {name}{_suggestion(name)}"
        return
    stage = GATES[name].stage_in(base.version)
    if stage is _PRE_ALPHA:
        since = GATES[name].stages[0].since
        yield (
            f"cannot set feature gate {name} to {str(on).lower()}, Kubernetes {base.version} does "
            f"not have it: it came with 1.{since}"
        )
    elif stage.locked and on != stage.default:
        yield (
            f"cannot set feature gate {name} to {str(on).lower()}, "
            f"feature is locked to {str(stage.default).lower()}: leave it out"
        )


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, [*GATES, *_LEVEL_OF_GROUP], n=1)
    return f", did you mean {close[0]}?" if close else f", known are {_listed(sorted(GATES))}"


def _values_by_field(base: Features, gates: Mapping[str, bool]) -> dict[str, bool]:
    values: dict[str, bool] = {}
    for group, level in _LEVEL_OF_GROUP.items():
        if group in gates:
            members = (
                gate for gate in GATES.values() if gate.stage_in(base.version).level == level
            )
            values.update((gate.field, gates[group]) for gate in members)
    values.update((GATES[name].field, on) for name, on in gates.items() if name in GATES)
    return values


def _unmet_needs(features: Features) -> Iterator[str]:
    for gate in GATES.values():
        if not is_enabled(features, gate.name):
            continue
        missing = [need for need in gate.needs if not is_enabled(features, need)]
        if missing:
            yield (
                f"{gate.name} is enabled, but depends on features that are disabled: "
                f"{_listed(missing)}: enable {'it' if len(missing) == 1 else 'them'} "
                f"or set {gate.name}=false"
            )


def _minor(version: str) -> int:
    return int(version.removeprefix("1."))


def _listed(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(words)


DEFAULT = for_version("1.37")
