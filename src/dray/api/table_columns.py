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


def _described(name: str, text: str, type: str = "string") -> Column:
    return Column(name, type, text=text)


def _field(name: str, path: str, type: str = "string") -> Column:
    """Return a column for one field: `path` is the schema type, a dot and the field's name."""
    owner, _, field = path.rpartition(".")
    return Column(name, type, field=(owner, field))


_NAME_FIELD = ("meta.v1.ObjectMeta", "name")
_NAME = Column("Name", format="name", field=_NAME_FIELD)
_AGE = _field("Age", "meta.v1.ObjectMeta.creationTimestamp")
_TEMPLATE = (
    _described("Containers", "Names of each container in the template."),
    _described("Images", "Images referenced by each container in the template."),
)


def _only_wide(*columns: Column) -> Columns:
    return tuple(column._replace(priority=1) for column in columns)


def _table(*columns: Column, wide: Columns = ()) -> Columns:
    """Return the columns between name and age; `-o wide` alone shows those in `wide`."""
    return (_NAME, *columns, _AGE, *_only_wide(*wide))


def _binding_table(kind: str) -> Columns:
    name = kind[0].lower() + kind[1:]
    subjects = ("Users", "Groups", "ServiceAccounts")
    return _table(
        _field("Role", f"rbac.v1.{kind}.roleRef"),
        wide=tuple(_described(subject, f"{subject} in the {name}") for subject in subjects),
    )


_NAME_AND_AGE = _table()
_DEFAULT = (_NAME, _field("Created At", "meta.v1.ObjectMeta.creationTimestamp", "date"))

_BY_PLURAL: dict[str, Columns] = {
    "controllerrevisions": _table(
        _described("Controller", "Controller of the object"),
        _field("Revision", "apps.v1.ControllerRevision.revision"),
    ),
    "pods": _table(
        _described("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        _described("Status", "The aggregate status of the containers in this pod."),
        _described(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last"
            " container in this pod has restarted.",
        ),
        wide=(
            _field("IP", "core.v1.PodStatus.podIP"),
            _field("Node", "core.v1.PodSpec.nodeName"),
            _field("Nominated Node", "core.v1.PodStatus.nominatedNodeName"),
            _field("Readiness Gates", "core.v1.PodSpec.readinessGates"),
        ),
    ),
    "nodes": (
        _NAME,
        _described("Status", "The status of the node"),
        _described("Roles", "The roles of the node"),
        _AGE,
        _field("Version", "core.v1.NodeSystemInfo.kubeletVersion"),
        *_only_wide(
            _field("Internal-IP", "core.v1.NodeStatus.addresses"),
            _field("External-IP", "core.v1.NodeStatus.addresses"),
            _field("OS-Image", "core.v1.NodeSystemInfo.osImage"),
            _field("Kernel-Version", "core.v1.NodeSystemInfo.kernelVersion"),
            _field("Container-Runtime", "core.v1.NodeSystemInfo.containerRuntimeVersion"),
        ),
    ),
    "namespaces": _table(_described("Status", "The status of the namespace")),
    "events": (
        _field("Last Seen", "core.v1.Event.lastTimestamp"),
        _field("Type", "core.v1.Event.type"),
        _field("Reason", "core.v1.Event.reason"),
        _field("Object", "core.v1.Event.involvedObject"),
        *_only_wide(
            _field("Subobject", "core.v1.ObjectReference.fieldPath"),
            _field("Source", "core.v1.Event.source"),
        ),
        _field("Message", "core.v1.Event.message"),
        *_only_wide(
            _field("First Seen", "core.v1.Event.firstTimestamp"),
            _field("Count", "core.v1.Event.count"),
            _NAME,
        ),
    ),
    "configmaps": _table(_field("Data", "core.v1.ConfigMap.data")),
    "secrets": _table(_field("Type", "core.v1.Secret.type"), _field("Data", "core.v1.Secret.data")),
    "resourcequotas": _table(
        _described(
            "Request",
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        _described(
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent"
            " of contention on the node.",
        ),
    ),
    "deployments": _table(
        _described("Ready", "Number of the pod with ready state"),
        _field("Up-to-date", "apps.v1.DeploymentStatus.updatedReplicas"),
        _field("Available", "apps.v1.DeploymentStatus.availableReplicas"),
        wide=(*_TEMPLATE, _field("Selector", "apps.v1.DeploymentSpec.selector")),
    ),
    "replicasets": _table(
        _field("Desired", "apps.v1.ReplicaSetSpec.replicas", "integer"),
        _field("Current", "apps.v1.ReplicaSetStatus.replicas", "integer"),
        _field("Ready", "apps.v1.ReplicaSetStatus.readyReplicas", "integer"),
        wide=(*_TEMPLATE, _field("Selector", "apps.v1.ReplicaSetSpec.selector")),
    ),
    "replicationcontrollers": _table(
        _field("Desired", "core.v1.ReplicationControllerSpec.replicas", "integer"),
        _field("Current", "core.v1.ReplicationControllerStatus.replicas", "integer"),
        _field("Ready", "core.v1.ReplicationControllerStatus.readyReplicas", "integer"),
        wide=(*_TEMPLATE, _field("Selector", "core.v1.ReplicationControllerSpec.selector")),
    ),
    "podtemplates": (
        _NAME,
        _described("Containers", "Names of each container in the template."),
        _described("Images", "Images referenced by each container in the template."),
        _described("Pod Labels", "The labels for the pod template."),
    ),
    "statefulsets": _table(
        _described("Ready", "Number of the pod with ready state"), wide=_TEMPLATE
    ),
    "daemonsets": _table(
        _field("Desired", "apps.v1.DaemonSetStatus.desiredNumberScheduled", "integer"),
        _field("Current", "apps.v1.DaemonSetStatus.currentNumberScheduled", "integer"),
        _field("Ready", "apps.v1.DaemonSetStatus.numberReady", "integer"),
        _field("Up-to-date", "apps.v1.DaemonSetStatus.updatedNumberScheduled", "integer"),
        _field("Available", "apps.v1.DaemonSetStatus.numberAvailable", "integer"),
        _field("Node Selector", "core.v1.PodSpec.nodeSelector"),
        wide=(*_TEMPLATE, _field("Selector", "apps.v1.DaemonSetSpec.selector")),
    ),
    "cronjobs": _table(
        _field("Schedule", "batch.v1.CronJobSpec.schedule"),
        _field("Timezone", "batch.v1.CronJobSpec.timeZone"),
        _field("Suspend", "batch.v1.CronJobSpec.suspend", "boolean"),
        _field("Active", "batch.v1.CronJobStatus.active", "integer"),
        _field("Last Schedule", "batch.v1.CronJobStatus.lastScheduleTime"),
        wide=(*_TEMPLATE, _field("Selector", "batch.v1.JobSpec.selector")),
    ),
    "jobs": _table(
        _described("Status", "Status of the job."),
        _field("Completions", "batch.v1.JobStatus.succeeded"),
        _described("Duration", "Time required to complete the job."),
        wide=(*_TEMPLATE, _field("Selector", "batch.v1.JobSpec.selector")),
    ),
    "leases": _table(_field("Holder", "coordination.v1.LeaseSpec.holderIdentity")),
    "poddisruptionbudgets": _table(
        _described("Min Available", "The minimum number of pods that must be available."),
        _described("Max Unavailable", "The maximum number of pods that may be unavailable."),
        _described(
            "Allowed Disruptions",
            "Calculated number of pods that may be disrupted at this time.",
            "integer",
        ),
    ),
    "rolebindings": _binding_table("RoleBinding"),
    "clusterrolebindings": _binding_table("ClusterRoleBinding"),
    "runtimeclasses": (_NAME, _described("Handler", ""), _AGE),
    "priorityclasses": (
        _NAME,
        _field("Value", "scheduling.v1.PriorityClass.value", "integer"),
        _field("Global-Default", "scheduling.v1.PriorityClass.globalDefault", "boolean"),
        _AGE,
        _field("PreemptionPolicy", "scheduling.v1.PriorityClass.preemptionPolicy"),
    ),
    "validatingadmissionpolicies": _table(
        _described(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
            "integer",
        ),
        _described(
            "ParamKind",
            "ParamKind specifies the kind of resources used to parameterize this policy",
        ),
    ),
    "validatingadmissionpolicybindings": _table(
        _described(
            "PolicyName",
            "PolicyName indicates the policy definition which the policy binding binded to",
        ),
        _described(
            "ParamRef", "ParamRef indicates the param resource which sets the configuration param"
        ),
    ),
    "podgroups": _table(
        _field("Policy", "scheduling.v1beta1.PodGroupSpec.schedulingPolicy"),
        _described("Workload", "Name of the referenced Workload object"),
        _described("Status", "Status of the PodGroup"),
    ),
    "resourceclaims": _table(
        _described("State", "A summary of the current state (allocated, pending, reserved, etc.).")
    ),
    "resourceslices": _table(
        _field("Node", "resource.v1.ResourceSliceSpec.nodeName"),
        _field("Driver", "resource.v1.ResourceSliceSpec.driver"),
        _field("Pool", "resource.v1.ResourcePool.name"),
    ),
    "devicetaintrules": _table(
        _field("Key", "resource.v1.DeviceTaint.key"),
        _field("Value", "resource.v1.DeviceTaint.value"),
        _field("Effect", "resource.v1.DeviceTaint.effect"),
        _field("TimeAdded", "resource.v1.DeviceTaint.timeAdded"),
    ),
    "resourcepoolstatusrequests": (
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
    ),
    "scales": (
        Column("Name", field=_NAME_FIELD),
        _field("Desired", "autoscaling.v1.ScaleSpec.replicas", "integer"),
        _field("Available", "autoscaling.v1.ScaleStatus.replicas", "integer"),
        _AGE,
    ),
    "deviceclasses": _NAME_AND_AGE,
    "resourceclaimtemplates": _NAME_AND_AGE,
    "serviceaccounts": _NAME_AND_AGE,
    "workloads": _NAME_AND_AGE,
    # dray only stores these: it acts on none of their fields.
    "csidrivers": _NAME_AND_AGE,
    "csinodes": _NAME_AND_AGE,
    "persistentvolumeclaims": _NAME_AND_AGE,
    "persistentvolumes": _NAME_AND_AGE,
    "services": _NAME_AND_AGE,
    "storageclasses": _NAME_AND_AGE,
    "volumeattachments": _NAME_AND_AGE,
}


def of_resource(plural: str) -> Columns:
    """Return the columns of a resource; the default ones if it has none of its own."""
    return _BY_PLURAL.get(plural, _DEFAULT)
