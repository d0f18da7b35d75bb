"""The table of kinds: every kind dray serves, and nothing that a single kind does.

Discovery, routing, OpenAPI and the command line read this table; a new kind is a new row. Groups
stand in the order in which a Kubernetes API server lists them.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from dray.api import table_columns


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)

    @property
    def schema_type(self) -> str:
        """The kind's name in `api.schema`: `resource.v1.ResourceClaim`, `core.v1.Pod`."""
        return _schema_type(self)


@functools.lru_cache(maxsize=1024)
def _schema_type(gvk: GroupVersionKind) -> str:
    package = gvk.group.partition(".")[0] or "core"
    return f"{package}.{gvk.version}.{gvk.kind}"


def api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def parse_api_version(text: str) -> tuple[str, str]:
    """Split `resource.k8s.io/v1` into group and version; the core group is empty."""
    group, _, version = text.rpartition("/")
    return group, version


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_WITHOUT_DELETECOLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_CREATE_ONLY = ("create",)


class Subresource(NamedTuple):
    """`kind` is what it speaks where that is not the parent's own kind."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: GroupVersionKind | None = None


_STATUS = (Subresource("status"),)
_SCALE = Subresource("scale", kind=GroupVersionKind("autoscaling", "v1", "Scale"))
_SCALE_AND_STATUS = (_SCALE, *_STATUS)


@dataclass(frozen=True, slots=True)
class Kind:
    """One row. `versions` are the served ones, the preferred one first.

    `storage` is what Kubernetes stores the kind as where that is not its preferred version:
    discovery publishes a hash of it. `returns_deleted` kinds answer a deletion with the object,
    the others with a Status; `status_of_deleted` are versions that are an exception.
    """

    group: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    namespaced: bool = field(default=True, kw_only=True)
    versions: tuple[str, ...] = ("v1",)
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage: GroupVersionKind | None = None
    returns_deleted: bool = False
    status_of_deleted: tuple[str, ...] = ()
    preferred: GroupVersionKind = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "preferred", self.in_version(self.versions[0]))

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def columns(self) -> table_columns.Columns:
        return table_columns.of_resource(self.plural)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def is_stored(self) -> bool:
        """Return False for kinds that are only answered, such as reviews."""
        return "get" in self.verbs

    @property
    def storage_version_hash(self) -> str:
        """Return the hash of apiserver, endpoints/discovery, StorageVersionHash."""
        stored = self.storage or self.preferred
        text = f"{stored.group}/{stored.version}/{stored.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()

    @property
    def type_meta(self) -> dict[str, str]:
        """The fields `apiVersion` and `kind` of an object of this kind."""
        return {"apiVersion": self.preferred.api_version, "kind": self.kind}

    def in_version(self, version: str) -> GroupVersionKind:
        return GroupVersionKind(self.group, version, self.kind)

    def answers_deleted(self, version: str) -> bool:
        """Return whether the answer to a deletion is the object that was there."""
        return self.returns_deleted and version not in self.status_of_deleted

    def subresource(self, name: str) -> Subresource | None:
        for item in self.subresources:
            if item.name == name:
                return item
        return None


_ALL = ("all",)
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")

_ADMISSION = "admissionregistration.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_COORDINATION = "coordination.k8s.io"
_EVENTS = "events.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_RESOURCE = "resource.k8s.io"
_SCHEDULING = "scheduling.k8s.io"
_STORAGE = "storage.k8s.io"

_POD_SUBRESOURCES = (
    Subresource("attach", ("create", "get"), GroupVersionKind("", "v1", "PodAttachOptions")),
    Subresource("binding", _CREATE_ONLY, GroupVersionKind("", "v1", "Binding")),
    Subresource("eviction", _CREATE_ONLY, GroupVersionKind("policy", "v1", "Eviction")),
    Subresource("exec", ("create", "get"), GroupVersionKind("", "v1", "PodExecOptions")),
    Subresource("log", ("get",)),
    Subresource(
        "portforward", ("create", "get"), GroupVersionKind("", "v1", "PodPortForwardOptions")
    ),
    *_STATUS,
)
_TOKEN = Subresource("token", _CREATE_ONLY, GroupVersionKind(_AUTHENTICATION, "v1", "TokenRequest"))

_cluster_scoped = functools.partial(Kind, namespaced=False)
_returned = functools.partial(Kind, returns_deleted=True)
_cluster_returned = functools.partial(Kind, namespaced=False, returns_deleted=True)
_review = functools.partial(Kind, namespaced=False, verbs=_CREATE_ONLY)

KINDS: tuple[Kind, ...] = (
    Kind("", "Binding", "bindings", verbs=_CREATE_ONLY),
    Kind("", "ConfigMap", "configmaps", ("cm",)),
    Kind("", "Event", "events", ("ev",)),
    Kind("", "LimitRange", "limitranges", ("limits",)),
    _cluster_returned(
        "",
        "Namespace",
        "namespaces",
        ("ns",),
        (Subresource("finalize", ("update",)), *_STATUS),
        verbs=_WITHOUT_DELETECOLLECTION,
    ),
    _cluster_scoped("", "Node", "nodes", ("no",), _STATUS),
    _returned("", "PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",), _STATUS),
    _cluster_returned("", "PersistentVolume", "persistentvolumes", ("pv",), _STATUS),
    _returned("", "Pod", "pods", ("po",), _POD_SUBRESOURCES, categories=_ALL),
    _returned("", "PodTemplate", "podtemplates"),
    Kind(
        "",
        "ReplicationController",
        "replicationcontrollers",
        ("rc",),
        _SCALE_AND_STATUS,
        categories=_ALL,
    ),
    _returned("", "ResourceQuota", "resourcequotas", ("quota",), _STATUS),
    Kind("", "Secret", "secrets"),
    _returned("", "ServiceAccount", "serviceaccounts", ("sa",), (_TOKEN,)),
    _returned("", "Service", "services", ("svc",), _STATUS, categories=_ALL),
    Kind("apps", "ControllerRevision", "controllerrevisions"),
    Kind("apps", "DaemonSet", "daemonsets", ("ds",), _STATUS, categories=_ALL),
    Kind("apps", "Deployment", "deployments", ("deploy",), _SCALE_AND_STATUS, categories=_ALL),
    Kind("apps", "ReplicaSet", "replicasets", ("rs",), _SCALE_AND_STATUS, categories=_ALL),
    Kind("apps", "StatefulSet", "statefulsets", ("sts",), _SCALE_AND_STATUS, categories=_ALL),
    Kind(_EVENTS, "Event", "events", ("ev",), storage=GroupVersionKind("", "v1", "Event")),
    _review(_AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews"),
    _review(_AUTHENTICATION, "TokenReview", "tokenreviews"),
    _review(
        _AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True
    ),
    _review(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _review(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews"),
    Kind("batch", "CronJob", "cronjobs", ("cj",), _STATUS, categories=_ALL),
    Kind("batch", "Job", "jobs", subresources=_STATUS, categories=_ALL),
    Kind("policy", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), _STATUS),
    _cluster_scoped(_RBAC, "ClusterRoleBinding", "clusterrolebindings"),
    _cluster_scoped(_RBAC, "ClusterRole", "clusterroles"),
    Kind(_RBAC, "RoleBinding", "rolebindings"),
    Kind(_RBAC, "Role", "roles"),
    _cluster_scoped("node.k8s.io", "RuntimeClass", "runtimeclasses"),
    _cluster_returned(_STORAGE, "CSIDriver", "csidrivers"),
    _cluster_returned(_STORAGE, "CSINode", "csinodes", subresources=_STATUS),
    Kind(_STORAGE, "CSIStorageCapacity", "csistoragecapacities"),
    _cluster_returned(_STORAGE, "StorageClass", "storageclasses", ("sc",)),
    _cluster_returned(_STORAGE, "VolumeAttachment", "volumeattachments", subresources=_STATUS),
    _cluster_scoped(_SCHEDULING, "PriorityClass", "priorityclasses", ("pc",)),
    Kind(_SCHEDULING, "PodGroup", "podgroups", subresources=_STATUS, versions=("v1beta1",)),
    Kind(_SCHEDULING, "Workload", "workloads", versions=("v1beta1",)),
    Kind(_COORDINATION, "Lease", "leases"),
    Kind("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    _cluster_scoped(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        subresources=_STATUS,
        categories=("api-extensions",),
    ),
    _cluster_scoped(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        categories=("api-extensions",),
    ),
    _cluster_returned(_RESOURCE, "DeviceClass", "deviceclasses", versions=_DRA_VERSIONS),
    _cluster_returned(
        _RESOURCE,
        "DeviceTaintRule",
        "devicetaintrules",
        subresources=_STATUS,
        versions=("v1", "v1beta2", "v1alpha3"),
        storage=GroupVersionKind(_RESOURCE, "v1beta2", "DeviceTaintRule"),
        status_of_deleted=("v1",),
    ),
    _returned(
        _RESOURCE, "ResourceClaim", "resourceclaims", subresources=_STATUS, versions=_DRA_VERSIONS
    ),
    _returned(_RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", versions=_DRA_VERSIONS),
    _cluster_returned(
        _RESOURCE,
        "ResourcePoolStatusRequest",
        "resourcepoolstatusrequests",
        subresources=_STATUS,
        versions=("v1alpha3",),
    ),
    _cluster_returned(_RESOURCE, "ResourceSlice", "resourceslices", versions=_DRA_VERSIONS),
)

_BY_RESOURCE = {
    (kind.group, version, kind.plural): kind for kind in KINDS for version in kind.versions
}
_BY_KIND = {(kind.group, kind.kind): kind for kind in KINDS}


def by_resource(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind behind a request path, or None if this version does not serve it."""
    return _BY_RESOURCE.get((group, version, plural))


def by_kind(group: str, kind: str) -> Kind | None:
    return _BY_KIND.get((group, kind))


def served(group: str, kind: str) -> Kind:
    """Return a kind that must be in the table. Raises KeyError otherwise."""
    return _BY_KIND[group, kind]


def by_name(name: str) -> Kind | None:
    """Return the kind for `po`, `pods`, `pod`, `Pod` or `events.events.k8s.io`, or None.

    Where several groups have the name, the first row wins, as in kubectl.
    """
    word, _, group = name.lower().partition(".")
    for kind in KINDS:
        if group in ("", kind.group) and word in (kind.plural, kind.singular, *kind.short_names):
            return kind
    return None


def in_group_version(group: str, version: str) -> Iterator[Kind]:
    """Yield the kinds of one group and version, by plural name as discovery lists them."""
    served = (kind for kind in KINDS if kind.group == group and version in kind.versions)
    return iter(sorted(served, key=lambda kind: kind.plural))


def _version_priority(version: str) -> tuple[int, int, int]:
    """Return the sort key of apimachinery, version/helpers.go: stable, then beta, then alpha."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    assert match, version
    major, stage, minor = match.groups()
    return ("alpha", "beta", None).index(stage), int(major), int(minor or 0)


def _versions_by_group() -> Mapping[str, tuple[str, ...]]:
    versions: dict[str, set[str]] = {}
    for kind in KINDS:
        versions.setdefault(kind.group, set()).update(kind.versions)
    return MappingProxyType(
        {
            group: tuple(sorted(served, key=_version_priority, reverse=True))
            for group, served in versions.items()
        }
    )


VERSIONS_BY_GROUP = _versions_by_group()
"""Every group with its served versions, the preferred one first."""


# The kinds that dray's own code names, by group.
CONFIG_MAP = served("", "ConfigMap")
EVENT = served("", "Event")
NAMESPACE = served("", "Namespace")
NODE = served("", "Node")
PERSISTENT_VOLUME_CLAIM = served("", "PersistentVolumeClaim")
POD = served("", "Pod")
REPLICATION_CONTROLLER = served("", "ReplicationController")
RESOURCE_QUOTA = served("", "ResourceQuota")
LIMIT_RANGE = served("", "LimitRange")
RUNTIME_CLASS = served("node.k8s.io", "RuntimeClass")
SECRET = served("", "Secret")
SERVICE = served("", "Service")
SERVICE_ACCOUNT = served("", "ServiceAccount")
VALIDATING_ADMISSION_POLICY = served(_ADMISSION, "ValidatingAdmissionPolicy")
VALIDATING_ADMISSION_POLICY_BINDING = served(_ADMISSION, "ValidatingAdmissionPolicyBinding")
CONTROLLER_REVISION = served("apps", "ControllerRevision")
DAEMON_SET = served("apps", "DaemonSet")
DEPLOYMENT = served("apps", "Deployment")
REPLICA_SET = served("apps", "ReplicaSet")
STATEFUL_SET = served("apps", "StatefulSet")
CRON_JOB = served("batch", "CronJob")
JOB = served("batch", "Job")
LEASE = served(_COORDINATION, "Lease")
POD_DISRUPTION_BUDGET = served("policy", "PodDisruptionBudget")
CLUSTER_ROLE_BINDING = served(_RBAC, "ClusterRoleBinding")
DEVICE_CLASS = served(_RESOURCE, "DeviceClass")
DEVICE_TAINT_RULE = served(_RESOURCE, "DeviceTaintRule")
RESOURCE_CLAIM = served(_RESOURCE, "ResourceClaim")
RESOURCE_CLAIM_TEMPLATE = served(_RESOURCE, "ResourceClaimTemplate")
RESOURCE_POOL_STATUS_REQUEST = served(_RESOURCE, "ResourcePoolStatusRequest")
RESOURCE_SLICE = served(_RESOURCE, "ResourceSlice")
POD_GROUP = served(_SCHEDULING, "PodGroup")
PRIORITY_CLASS = served(_SCHEDULING, "PriorityClass")
