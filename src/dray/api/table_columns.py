"""The columns of `kubectl get` for each kind, as data.

`apiserver.tables` computes the cells. Names, order and widths follow Kubernetes,
pkg/printers/internalversion/printers.go, AddHandlers.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column. Its description is `text`, or else the text of `field` in the schema."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    """1 for what only `-o wide` shows."""
    text: str = ""
    field: tuple[str, str] = ("", "")
    """Schema type and field name."""


Columns = tuple[Column, ...]


def _described(name: str, text: str, type: str = "string", *, wide: bool = False) -> Column:
    return Column(name, type, priority=int(wide), text=text)


def _field(name: str, path: str, type: str = "string", *, wide: bool = False) -> Column:
    """Return a column for one field: `path` is the schema type, a dot and the field's name."""
    owner, _, field = path.rpartition(".")
    return Column(name, type, priority=int(wide), field=(owner, field))


_NAME_FIELD = ("meta.v1.ObjectMeta", "name")
_NAME = Column("Name", format="name", field=_NAME_FIELD)
_AGE = _field("Age", "meta.v1.ObjectMeta.creationTimestamp")
_CONTAINERS = _described("Containers", "Names of each container in the template.", wide=True)
_IMAGES = _described("Images", "Images referenced by each container in the template.", wide=True)

NAME_AND_AGE: Columns = (_NAME, _AGE)
"""Also for kinds that dray only stores, such as Service: it acts on none of their fields."""

DEFAULT: Columns = (_NAME, _field("Created At", "meta.v1.ObjectMeta.creationTimestamp", "date"))
"""For kinds without columns of their own."""

CONTROLLER_REVISIONS: Columns = (
    _NAME,
    _described("Controller", "Controller of the object"),
    _field("Revision", "apps.v1.ControllerRevision.revision"),
    _AGE,
)

PODS: Columns = (
    _NAME,
    _described("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    _described("Status", "The aggregate status of the containers in this pod."),
    _described(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last"
        " container in this pod has restarted.",
    ),
    _AGE,
    _field("IP", "core.v1.PodStatus.podIP", wide=True),
    _field("Node", "core.v1.PodSpec.nodeName", wide=True),
    _field("Nominated Node", "core.v1.PodStatus.nominatedNodeName", wide=True),
    _field("Readiness Gates", "core.v1.PodSpec.readinessGates", wide=True),
)

NODES: Columns = (
    _NAME,
    _described("Status", "The status of the node"),
    _described("Roles", "The roles of the node"),
    _AGE,
    _field("Version", "core.v1.NodeSystemInfo.kubeletVersion"),
    _field("Internal-IP", "core.v1.NodeStatus.addresses", wide=True),
    _field("External-IP", "core.v1.NodeStatus.addresses", wide=True),
    _field("OS-Image", "core.v1.NodeSystemInfo.osImage", wide=True),
    _field("Kernel-Version", "core.v1.NodeSystemInfo.kernelVersion", wide=True),
    _field("Container-Runtime", "core.v1.NodeSystemInfo.containerRuntimeVersion", wide=True),
)

NAMESPACES: Columns = (_NAME, _described("Status", "The status of the namespace"), _AGE)

EVENTS: Columns = (
    _field("Last Seen", "core.v1.Event.lastTimestamp"),
    _field("Type", "core.v1.Event.type"),
    _field("Reason", "core.v1.Event.reason"),
    _field("Object", "core.v1.Event.involvedObject"),
    _field("Subobject", "core.v1.ObjectReference.fieldPath", wide=True),
    _field("Source", "core.v1.Event.source", wide=True),
    _field("Message", "core.v1.Event.message"),
    _field("First Seen", "core.v1.Event.firstTimestamp", wide=True),
    _field("Count", "core.v1.Event.count", wide=True),
    Column("Name", format="name", priority=1, field=_NAME_FIELD),
)

CONFIG_MAPS: Columns = (_NAME, _field("Data", "core.v1.ConfigMap.data"), _AGE)

SECRETS: Columns = (
    _NAME,
    _field("Type", "core.v1.Secret.type"),
    _field("Data", "core.v1.Secret.data"),
    _AGE,
)

RESOURCE_QUOTAS: Columns = (
    _NAME,
    _described(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    _described(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of"
        " contention on the node.",
    ),
    _AGE,
)

DEPLOYMENTS: Columns = (
    _NAME,
    _described("Ready", "Number of the pod with ready state"),
    _field("Up-to-date", "apps.v1.DeploymentStatus.updatedReplicas"),
    _field("Available", "apps.v1.DeploymentStatus.availableReplicas"),
    _AGE,
    _CONTAINERS,
    _IMAGES,
    _field("Selector", "apps.v1.DeploymentSpec.selector", wide=True),
)

REPLICA_SETS: Columns = (
    _NAME,
    _field("Desired", "apps.v1.ReplicaSetSpec.replicas", "integer"),
    _field("Current", "apps.v1.ReplicaSetStatus.replicas", "integer"),
    _field("Ready", "apps.v1.ReplicaSetStatus.readyReplicas", "integer"),
    _AGE,
    _CONTAINERS,
    _IMAGES,
    _field("Selector", "apps.v1.ReplicaSetSpec.selector", wide=True),
)

STATEFUL_SETS: Columns = (
    _NAME,
    _described("Ready", "Number of the pod with ready state"),
    _AGE,
    _CONTAINERS,
    _IMAGES,
)

DAEMON_SETS: Columns = (
    _NAME,
    _field("Desired", "apps.v1.DaemonSetStatus.desiredNumberScheduled", "integer"),
    _field("Current", "apps.v1.DaemonSetStatus.currentNumberScheduled", "integer"),
    _field("Ready", "apps.v1.DaemonSetStatus.numberReady", "integer"),
    _field("Up-to-date", "apps.v1.DaemonSetStatus.updatedNumberScheduled", "integer"),
    _field("Available", "apps.v1.DaemonSetStatus.numberAvailable", "integer"),
    _field("Node Selector", "core.v1.PodSpec.nodeSelector"),
    _AGE,
    _CONTAINERS,
    _IMAGES,
    _field("Selector", "apps.v1.DaemonSetSpec.selector", wide=True),
)

JOBS: Columns = (
    _NAME,
    _described("Status", "Status of the job."),
    _field("Completions", "batch.v1.JobStatus.succeeded"),
    _described("Duration", "Time required to complete the job."),
    _AGE,
    _CONTAINERS,
    _IMAGES,
    _field("Selector", "batch.v1.JobSpec.selector", wide=True),
)

LEASES: Columns = (_NAME, _field("Holder", "coordination.v1.LeaseSpec.holderIdentity"), _AGE)

POD_DISRUPTION_BUDGETS: Columns = (
    _NAME,
    _described("Min Available", "The minimum number of pods that must be available."),
    _described("Max Unavailable", "The maximum number of pods that may be unavailable."),
    _described(
        "Allowed Disruptions",
        "Calculated number of pods that may be disrupted at this time.",
        "integer",
    ),
    _AGE,
)

ROLE_BINDINGS: Columns = (
    _NAME,
    _field("Role", "rbac.v1.RoleBinding.roleRef"),
    _AGE,
    _described("Users", "Users in the roleBinding", wide=True),
    _described("Groups", "Groups in the roleBinding", wide=True),
    _described("ServiceAccounts", "ServiceAccounts in the roleBinding", wide=True),
)

CLUSTER_ROLE_BINDINGS: Columns = (
    _NAME,
    _field("Role", "rbac.v1.ClusterRoleBinding.roleRef"),
    _AGE,
    _described("Users", "Users in the clusterRoleBinding", wide=True),
    _described("Groups", "Groups in the clusterRoleBinding", wide=True),
    _described("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding", wide=True),
)

PRIORITY_CLASSES: Columns = (
    _NAME,
    _field("Value", "scheduling.v1.PriorityClass.value", "integer"),
    _field("Global-Default", "scheduling.v1.PriorityClass.globalDefault", "boolean"),
    _AGE,
    _field("PreemptionPolicy", "scheduling.v1.PriorityClass.preemptionPolicy"),
)

POD_GROUPS: Columns = (
    _NAME,
    _field("Policy", "scheduling.v1beta1.PodGroupSpec.schedulingPolicy"),
    _described("Workload", "Name of the referenced Workload object"),
    _described("Status", "Status of the PodGroup"),
    _AGE,
)

RESOURCE_CLAIMS: Columns = (
    _NAME,
    _described("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
    _AGE,
)

RESOURCE_SLICES: Columns = (
    _NAME,
    _field("Node", "resource.v1.ResourceSliceSpec.nodeName"),
    _field("Driver", "resource.v1.ResourceSliceSpec.driver"),
    _field("Pool", "resource.v1.ResourcePool.name"),
    _AGE,
)

DEVICE_TAINT_RULES: Columns = (
    _NAME,
    _field("Key", "resource.v1.DeviceTaint.key"),
    _field("Value", "resource.v1.DeviceTaint.value"),
    _field("Effect", "resource.v1.DeviceTaint.effect"),
    _field("TimeAdded", "resource.v1.DeviceTaint.timeAdded"),
    _AGE,
)

RESOURCE_POOL_STATUS_REQUESTS: Columns = (
    _NAME,
    _described("Driver", "The driver to query pools for."),
    _described("Total", "Total number of devices across all pools."),
    _described("Available", "Number of available devices across all pools."),
    _described("Allocated", "Number of allocated devices across all pools."),
    _described("Unavailable", "Number of unavailable devices across all pools."),
    _described("Errors", "Number of pools with validation errors."),
    _described("Pools", "Total number of matching pools.", "integer"),
    _described("Status", "Processing status."),
    _described("Completed", "Time since the observation completed."),
)

SCALE: Columns = (
    Column("Name", field=_NAME_FIELD),
    _field("Desired", "autoscaling.v1.ScaleSpec.replicas", "integer"),
    _field("Available", "autoscaling.v1.ScaleStatus.replicas", "integer"),
    _AGE,
)

STATUS: Columns = (
    _field("Status", "meta.v1.Status.status"),
    _field("Reason", "meta.v1.Status.reason"),
    Column("Message"),
)
"""For an answer that is a Status, such as that of a deletion."""
