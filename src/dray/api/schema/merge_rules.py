"""Merge rules of lists, maps and structures, and the values of enumerations.

Server-side apply asks which items of a list are the same item (`list_type`, `keys`) and which
values have one owner as a whole (`is_atomic`); strategic merge patch asks for `strategies` and
`merge_key`. Facts from the markers and tags of k8s.io/api and k8s.io/apimachinery 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from dray.api.schema import field_types

ATOMIC: Final = "atomic"
SET: Final = "set"
MAP: Final = "map"

MERGE: Final = "merge"
REPLACE: Final = "replace"
RETAIN_KEYS: Final = "retainKeys"


class MergeRule(NamedTuple):
    """The merge rule of one field. Lists without a rule are atomic and are replaced by patches.

    `list_type` is `atomic`, `set` or `map`; items of a `map` are the same where `keys` agree.
    `is_atomic` says whether a map or structure has one owner, where its type does not say it.
    """

    list_type: str = ATOMIC
    keys: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    merge_key: str = ""
    is_atomic: bool | None = None


_NO_RULE = MergeRule()


def rule(type_name: str, field: str) -> MergeRule:
    """Return how a field of a structure merges."""
    return RULES.get((type_name, field), _NO_RULE)


def is_atomic(type_name: str, field: str) -> bool:
    """Return whether a map or structure in this field has one owner for all it holds."""
    own = rule(type_name, field).is_atomic
    if own is not None:
        return own
    return field_types.fields(type_name)[field].type.name in ATOMIC_STRUCTS


def enum_values(type: field_types.Type) -> tuple[str, ...]:
    """Return the values that a string of this type may have; empty means any."""
    return ENUMS.get(type.name, ())


def key_default(type_name: str, key: str) -> str | None:
    """Return the default of an item's key, or None if the key is required."""
    if (type_name, key) in KEY_DEFAULTS:
        return KEY_DEFAULTS[type_name, key]
    field = field_types.fields(type_name)[key]
    is_written_empty = field.omission is field_types.Omission.NEVER and not field.type.is_pointer
    return "" if is_written_empty and field.type.form is field_types.WireForm.STRING else None


def _merged(*keys: str) -> MergeRule:
    """Return the rule for items identified by `keys`; patches use only the first key."""
    return MergeRule(MAP, keys, (MERGE,), keys[0])


def _merged_retaining_keys(key: str) -> MergeRule:
    """Return `_merged` for items whose members to keep a patch may name."""
    return MergeRule(MAP, (key,), (MERGE, RETAIN_KEYS), key)


def _keyed(*keys: str) -> MergeRule:
    """Return the rule for items identified by `keys` in server-side apply.

    Patches replace the list.
    """
    return MergeRule(MAP, keys)


_SET = MergeRule(SET)
_MERGED_SET = MergeRule(SET, strategies=(MERGE,))
_BY_TYPE = _merged("type")
_BY_NAME = _merged("name")

_CONTAINER = {
    "env": _BY_NAME,
    "ports": _merged("containerPort", "protocol"),
    "volumeDevices": _merged("devicePath"),
    "volumeMounts": _merged("mountPath"),
}
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_TAINT_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")

_RULES_BY_TYPE: dict[str, dict[str, MergeRule]] = {
    "meta.v1.ObjectMeta": {"finalizers": _MERGED_SET, "ownerReferences": _merged("uid")},
    "core.v1.Container": _CONTAINER,
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.ContainerRestartRuleOnExitCodes": {"values": _SET},
    "core.v1.ContainerStatus": {
        "allocatedResourcesStatus": _BY_NAME,
        "volumeMounts": _merged("mountPath"),
    },
    "core.v1.NamespaceStatus": {"conditions": _BY_TYPE},
    "core.v1.NodeAllocatableResourceClaimStatus": {
        "containers": _SET,
        "mapping": _BY_NAME,
        "overhead": _BY_NAME,
    },
    "core.v1.NodePodPreemptionPolicy": {"disableResizePreemption": _SET},
    "core.v1.NodeSpec": {"podCIDRs": _MERGED_SET},
    "core.v1.NodeStatus": {"addresses": _BY_TYPE, "conditions": _BY_TYPE},
    "core.v1.PersistentVolumeClaimStatus": {
        "allocatedResourceStatuses": MergeRule(is_atomic=False),
        "conditions": _BY_TYPE,
    },
    "core.v1.PersistentVolumeSpec": {"claimRef": MergeRule(is_atomic=False)},
    "core.v1.PodSpec": {
        "containers": _BY_NAME,
        "ephemeralContainers": _BY_NAME,
        "evictionResponders": _BY_NAME,
        "hostAliases": _merged("ip"),
        "imagePullSecrets": _BY_NAME,
        "initContainers": _BY_NAME,
        "nodeSelector": MergeRule(is_atomic=True),
        "resourceClaims": _merged_retaining_keys("name"),
        "schedulingGates": _BY_NAME,
        "topologySpreadConstraints": _merged("topologyKey", "whenUnsatisfiable"),
        "volumes": _merged_retaining_keys("name"),
    },
    "node.v1.Scheduling": {"nodeSelector": MergeRule(is_atomic=True)},
    "core.v1.PodStatus": {
        "conditions": _BY_TYPE,
        "hostIPs": MergeRule(ATOMIC, strategies=(MERGE,), merge_key="ip"),
        "nodeAllocatableResourceClaimStatuses": _merged("resourceClaimName"),
        "podIPs": _merged("ip"),
        "resourceClaimStatuses": _merged_retaining_keys("name"),
        "volumeHealth": _keyed("name"),
    },
    "core.v1.PodVolumeHealth": {"healthConditions": _merged("status", "reason")},
    "core.v1.ReplicationControllerSpec": {"selector": MergeRule(is_atomic=True)},
    "core.v1.ReplicationControllerStatus": {"conditions": _BY_TYPE},
    "core.v1.ResourceRequirements": {"claims": _keyed("name")},
    "core.v1.ResourceStatus": {"resources": _keyed("resourceID")},
    "core.v1.ServiceAccount": {"secrets": _BY_NAME},
    "core.v1.ServiceSpec": {
        "ports": _merged("port", "protocol"),
        "selector": MergeRule(is_atomic=True),
    },
    "core.v1.ServiceStatus": {"conditions": _BY_TYPE},
    "core.v1.VolumeHealthStatus": {"healthConditions": _merged("status", "reason")},
    "core.v1.VolumeMount": {"bindMountOptions": _SET},
    "apps.v1.DaemonSetStatus": {"conditions": _BY_TYPE},
    "apps.v1.DeploymentSpec": {"strategy": MergeRule(strategies=(RETAIN_KEYS,))},
    "apps.v1.DeploymentStatus": {"conditions": _BY_TYPE},
    "apps.v1.ReplicaSetStatus": {"conditions": _BY_TYPE},
    "apps.v1.StatefulSetStatus": {"conditions": _BY_TYPE},
    "batch.v1.JobSchedulingConfiguration": {"resourceClaims": _BY_NAME},
    "batch.v1.JobStatus": {"conditions": MergeRule(ATOMIC, strategies=(MERGE,), merge_key="type")},
    "batch.v1.PodFailurePolicyOnExitCodesRequirement": {"values": _SET},
    "batch.v1.UncountedTerminatedPods": {"failed": _SET, "succeeded": _SET},
    "policy.v1.PodDisruptionBudgetSpec": {"selector": MergeRule(strategies=(REPLACE,))},
    "policy.v1.PodDisruptionBudgetStatus": {"conditions": _BY_TYPE},
    "resource.v1alpha3.ResourcePoolStatusRequestStatus": {"conditions": _BY_TYPE},
    "scheduling.v1beta1.CompositePodGroupTemplate": {
        "compositePodGroupTemplates": _keyed("name"),
        "podGroupTemplates": _keyed("name"),
    },
    "scheduling.v1beta1.PodGroupSpec": {"resourceClaims": _merged_retaining_keys("name")},
    "scheduling.v1beta1.PodGroupStatus": {
        "conditions": _BY_TYPE,
        "resourceClaimStatuses": _merged_retaining_keys("name"),
    },
    "scheduling.v1beta1.PodGroupTemplate": {"resourceClaims": _merged_retaining_keys("name")},
    "scheduling.v1beta1.WorkloadSpec": {
        "compositePodGroupTemplates": _keyed("name"),
        "podGroupTemplates": _keyed("name"),
    },
    "storage.v1.CSIDriverSpec": {"volumeLifecycleModes": _SET},
    "storage.v1.CSINodeSpec": {"drivers": _BY_NAME},
    "storage.v1.CSINodeStatus": {"storageHealth": _BY_NAME},
    **{
        f"resource.{version}.{type_name}": rules
        for version in _DRA_VERSIONS
        for type_name, rules in {
            "AllocatedDeviceStatus": {"conditions": _keyed("type")},
            "DeviceRequestAllocationResult": {"skipNodeOperations": _SET},
            "ResourceClaimStatus": {
                "devices": _keyed("driver", "device", "pool", "shareID"),
                "reservedFor": _merged("uid"),
            },
            "ResourceSliceSpec": {"skipNodeOperations": _SET},
        }.items()
    },
    **{
        f"resource.{version}.DeviceTaintRuleStatus": {"conditions": _BY_TYPE}
        for version in _TAINT_RULE_VERSIONS
    },
}

RULES: Mapping[tuple[str, str], MergeRule] = MappingProxyType(
    {
        (type_name, field): rule
        for type_name, rules in _RULES_BY_TYPE.items()
        for field, rule in rules.items()
    }
)
"""Every field that does not merge as its type alone would, by structure and name."""

ATOMIC_STRUCTS = frozenset(
    {
        "core.v1.ConfigMapKeySelector",
        "core.v1.EvictionResponder",
        "core.v1.FileKeySelector",
        "core.v1.LocalObjectReference",
        "core.v1.NodeSelector",
        "core.v1.NodeSelectorTerm",
        "core.v1.ObjectFieldSelector",
        "core.v1.ObjectReference",
        "core.v1.ResourceFieldSelector",
        "core.v1.ScopeSelector",
        "core.v1.SecretKeySelector",
        "core.v1.SecretReference",
        "core.v1.TopologySelectorTerm",
        "core.v1.TypedLocalObjectReference",
        "meta.v1.LabelSelector",
        "meta.v1.OwnerReference",
        "rbac.v1.RoleRef",
        "rbac.v1.Subject",
    }
)
"""Structures that server-side apply takes or leaves as a whole."""

KEY_DEFAULTS = {
    ("core.v1.ContainerPort", "protocol"): "TCP",
    ("core.v1.LocalObjectReference", "name"): "",
    ("core.v1.ServicePort", "protocol"): "TCP",
}
"""Keys of list items that have a default, by structure and name."""


def _signals() -> tuple[str, ...]:
    plain = (
        "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX"
        " RTMIN SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ"
    )
    real_time = [f"RTMAX-{n}" for n in range(1, 15)] + [f"RTMIN+{n}" for n in range(1, 16)]
    return tuple(sorted(f"SIG{name}" for name in [*plain.split(), *real_time]))


ENUMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "core.v1.Signal": _signals(),
        "apps.v1.DaemonSetUpdateStrategyType": ("OnDelete", "RollingUpdate"),
        "apps.v1.DeploymentStrategyType": ("Recreate", "RollingUpdate"),
        "apps.v1.PodManagementPolicyType": ("OrderedReady", "Parallel"),
        "apps.v1.StatefulSetUpdateStrategyType": ("OnDelete", "Recreate", "RollingUpdate"),
        "batch.v1.CompletionMode": ("Indexed", "NonIndexed"),
        "batch.v1.PodFailurePolicyAction": ("Count", "FailIndex", "FailJob", "Ignore"),
        "batch.v1.PodFailurePolicyOnExitCodesOperator": ("In", "NotIn"),
        "batch.v1.PodReplacementPolicy": ("Failed", "TerminatingOrFailed"),
        "core.v1.AppArmorProfileType": ("Localhost", "RuntimeDefault", "Unconfined"),
        "core.v1.AzureDataDiskCachingMode": ("None", "ReadOnly", "ReadWrite"),
        "core.v1.AzureDataDiskKind": ("Dedicated", "Managed", "Shared"),
        "core.v1.ClaimResourceStatus": (
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
            "NodeResizePending",
        ),
        "core.v1.DNSPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "core.v1.GRPCProbeMode": ("Plaintext", "TLS"),
        "core.v1.HTTPProtocol": ("HTTP1", "HTTP2"),
        "core.v1.HostPathType": (
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ),
        "core.v1.IPFamily": ("", "IPv4", "IPv6"),
        "core.v1.IPFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
        "core.v1.MountPropagationMode": ("Bidirectional", "HostToContainer", "None"),
        "core.v1.NamespacePhase": ("Active", "Terminating"),
        "core.v1.NodeInclusionPolicy": ("Honor", "Ignore"),
        "core.v1.NodePhase": ("Pending", "Running", "Terminated"),
        "core.v1.NodeSelectorOperator": ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"),
        "core.v1.PersistentVolumeAccessMode": (
            "ReadOnlyMany",
            "ReadWriteMany",
            "ReadWriteOnce",
            "ReadWriteOncePod",
        ),
        "core.v1.PersistentVolumeClaimModifyVolumeStatus": ("InProgress", "Infeasible", "Pending"),
        "core.v1.PersistentVolumeClaimPhase": ("Bound", "Lost", "Pending"),
        "core.v1.PersistentVolumeMode": ("Block", "Filesystem"),
        "core.v1.PersistentVolumePhase": ("Available", "Bound", "Failed", "Pending", "Released"),
        "core.v1.PersistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain"),
        "core.v1.PodFSGroupChangePolicy": ("Always", "OnRootMismatch"),
        "core.v1.PodPhase": ("Failed", "Pending", "Running", "Succeeded", "Unknown"),
        "core.v1.PodQOSClass": ("BestEffort", "Burstable", "Guaranteed"),
        "core.v1.PreemptionPolicy": ("Never", "PreemptLowerPriority"),
        "core.v1.ProcMountType": ("Default", "Unmasked"),
        "core.v1.Protocol": ("SCTP", "TCP", "UDP"),
        "core.v1.PullPolicy": ("Always", "IfNotPresent", "Never"),
        "core.v1.ResourceQuotaScope": (
            "BestEffort",
            "CrossNamespacePodAffinity",
            "NotBestEffort",
            "NotTerminating",
            "PriorityClass",
            "Terminating",
            "VolumeAttributesClass",
        ),
        "core.v1.RestartPolicy": ("Always", "Never", "OnFailure"),
        "core.v1.ScopeSelectorOperator": ("DoesNotExist", "Exists", "In", "NotIn"),
        "core.v1.SeccompProfileType": ("Localhost", "RuntimeDefault", "Unconfined"),
        "core.v1.ServiceAffinity": ("ClientIP", "None"),
        "core.v1.ServiceExternalTrafficPolicy": ("Cluster", "Local"),
        "core.v1.ServiceInternalTrafficPolicy": ("Cluster", "Local"),
        "core.v1.ServiceType": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "core.v1.SupplementalGroupsPolicy": ("Merge", "Strict"),
        "core.v1.TaintEffect": ("NoExecute", "NoSchedule", "PreferNoSchedule"),
        "core.v1.TerminationMessagePolicy": ("FallbackToLogsOnError", "File"),
        "core.v1.TolerationOperator": ("Equal", "Exists", "Gt", "Lt"),
        "core.v1.URIScheme": ("HTTP", "HTTPS"),
        "core.v1.UnsatisfiableConstraintAction": ("DoNotSchedule", "ScheduleAnyway"),
        "core.v1.VolumeHealthStatusType": ("DataLoss", "Degraded", "Inaccessible"),
        "policy.v1.UnhealthyPodEvictionPolicyType": ("AlwaysAllow", "IfHealthyBudget"),
        "resource.v1alpha3.DeviceTaintEffect": ("NoExecute", "NoSchedule", "None"),
        "scheduling.v1beta1.PreemptionPolicy": ("Never", "PreemptLowerPriority"),
        "storage.v1.StorageHealthStatusType": ("StorageDegraded", "StorageUnreachable"),
        "storage.v1.VolumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
        **{
            f"resource.{version}.{type_name}": values
            for version in _DRA_VERSIONS
            for type_name, values in {
                "AllocationConfigSource": ("FromClaim", "FromClass"),
                "DeviceAllocationMode": ("All", "ExactCount"),
                "DeviceTaintEffect": ("NoExecute", "NoSchedule", "None"),
                "DeviceTolerationOperator": ("Equal", "Exists"),
                "SkipNodeOperation": ("*", "NodePrepareResources", "NodeUnprepareResources"),
            }.items()
        },
    }
)
"""String types whose values are known, by their name in the schema; values in order."""
