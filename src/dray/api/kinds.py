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
from dray.api.table_columns import Columns


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


_STATUS = Subresource("status")
_SCALE = Subresource("scale", kind=GroupVersionKind("autoscaling", "v1", "Scale"))
_BINDING_KIND = GroupVersionKind("", "v1", "Binding")


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
    namespaced: bool = field(kw_only=True)
    versions: tuple[str, ...] = ("v1",)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    columns: Columns = table_columns.DEFAULT
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
        for subresource in self.subresources:
            if subresource.name == name:
                return subresource
        return None


_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_ALL = ("all",)

KINDS: tuple[Kind, ...] = (
    Kind("", "Binding", "bindings", namespaced=True, verbs=_CREATE_ONLY),
    Kind(
        "",
        "ConfigMap",
        "configmaps",
        namespaced=True,
        short_names=("cm",),
        columns=table_columns.CONFIG_MAPS,
    ),
    Kind("", "Event", "events", namespaced=True, short_names=("ev",), columns=table_columns.EVENTS),
    Kind(
        "",
        "Namespace",
        "namespaces",
        namespaced=False,
        short_names=("ns",),
        verbs=_WITHOUT_DELETECOLLECTION,
        subresources=(Subresource("finalize", ("update",)), _STATUS),
        columns=table_columns.NAMESPACES,
        returns_deleted=True,
    ),
    Kind(
        "",
        "Node",
        "nodes",
        namespaced=False,
        short_names=("no",),
        subresources=(_STATUS,),
        columns=table_columns.NODES,
    ),
    Kind(
        "",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        namespaced=True,
        short_names=("pvc",),
        subresources=(_STATUS,),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "",
        "PersistentVolume",
        "persistentvolumes",
        namespaced=False,
        short_names=("pv",),
        subresources=(_STATUS,),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "",
        "Pod",
        "pods",
        namespaced=True,
        short_names=("po",),
        categories=_ALL,
        subresources=(
            Subresource(
                "attach", ("create", "get"), GroupVersionKind("", "v1", "PodAttachOptions")
            ),
            Subresource("binding", _CREATE_ONLY, _BINDING_KIND),
            Subresource("eviction", _CREATE_ONLY, GroupVersionKind("policy", "v1", "Eviction")),
            Subresource("exec", ("create", "get"), GroupVersionKind("", "v1", "PodExecOptions")),
            Subresource("log", ("get",)),
            _STATUS,
        ),
        columns=table_columns.PODS,
        returns_deleted=True,
    ),
    Kind(
        "",
        "ReplicationController",
        "replicationcontrollers",
        namespaced=True,
        short_names=("rc",),
        categories=_ALL,
        subresources=(_SCALE, _STATUS),
        columns=table_columns.NAME_AND_AGE,
    ),
    Kind(
        "",
        "ResourceQuota",
        "resourcequotas",
        namespaced=True,
        short_names=("quota",),
        subresources=(_STATUS,),
        columns=table_columns.RESOURCE_QUOTAS,
        returns_deleted=True,
    ),
    Kind("", "Secret", "secrets", namespaced=True, columns=table_columns.SECRETS),
    Kind(
        "",
        "ServiceAccount",
        "serviceaccounts",
        namespaced=True,
        short_names=("sa",),
        subresources=(
            Subresource(
                "token",
                _CREATE_ONLY,
                GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
            ),
        ),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "",
        "Service",
        "services",
        namespaced=True,
        short_names=("svc",),
        categories=_ALL,
        subresources=(_STATUS,),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "apps",
        "ControllerRevision",
        "controllerrevisions",
        namespaced=True,
        columns=table_columns.CONTROLLER_REVISIONS,
    ),
    Kind(
        "apps",
        "DaemonSet",
        "daemonsets",
        namespaced=True,
        short_names=("ds",),
        categories=_ALL,
        subresources=(_STATUS,),
        columns=table_columns.DAEMON_SETS,
    ),
    Kind(
        "apps",
        "Deployment",
        "deployments",
        namespaced=True,
        short_names=("deploy",),
        categories=_ALL,
        subresources=(_SCALE, _STATUS),
        columns=table_columns.DEPLOYMENTS,
    ),
    Kind(
        "apps",
        "ReplicaSet",
        "replicasets",
        namespaced=True,
        short_names=("rs",),
        categories=_ALL,
        subresources=(_SCALE, _STATUS),
        columns=table_columns.REPLICA_SETS,
    ),
    Kind(
        "apps",
        "StatefulSet",
        "statefulsets",
        namespaced=True,
        short_names=("sts",),
        categories=_ALL,
        subresources=(_SCALE, _STATUS),
        columns=table_columns.STATEFUL_SETS,
    ),
    Kind(
        "events.k8s.io",
        "Event",
        "events",
        namespaced=True,
        short_names=("ev",),
        columns=table_columns.EVENTS,
        storage=GroupVersionKind("", "v1", "Event"),
    ),
    Kind(
        "authentication.k8s.io",
        "SelfSubjectReview",
        "selfsubjectreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    Kind(
        "authentication.k8s.io",
        "TokenReview",
        "tokenreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    Kind(
        "authorization.k8s.io",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        namespaced=True,
        verbs=_CREATE_ONLY,
    ),
    Kind(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    Kind(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    Kind(
        "authorization.k8s.io",
        "SubjectAccessReview",
        "subjectaccessreviews",
        namespaced=False,
        verbs=_CREATE_ONLY,
    ),
    Kind(
        "batch",
        "Job",
        "jobs",
        namespaced=True,
        categories=_ALL,
        subresources=(_STATUS,),
        columns=table_columns.JOBS,
    ),
    Kind(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        namespaced=True,
        short_names=("pdb",),
        subresources=(_STATUS,),
        columns=table_columns.POD_DISRUPTION_BUDGETS,
    ),
    Kind(
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "clusterrolebindings",
        namespaced=False,
        columns=table_columns.CLUSTER_ROLE_BINDINGS,
    ),
    Kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", namespaced=False),
    Kind(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        "rolebindings",
        namespaced=True,
        columns=table_columns.ROLE_BINDINGS,
    ),
    Kind("rbac.authorization.k8s.io", "Role", "roles", namespaced=True),
    Kind(
        "storage.k8s.io",
        "CSIDriver",
        "csidrivers",
        namespaced=False,
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "storage.k8s.io",
        "CSINode",
        "csinodes",
        namespaced=False,
        subresources=(_STATUS,),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", namespaced=True),
    Kind(
        "storage.k8s.io",
        "StorageClass",
        "storageclasses",
        namespaced=False,
        short_names=("sc",),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "storage.k8s.io",
        "VolumeAttachment",
        "volumeattachments",
        namespaced=False,
        subresources=(_STATUS,),
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        namespaced=False,
        short_names=("pc",),
        columns=table_columns.PRIORITY_CLASSES,
    ),
    Kind(
        "scheduling.k8s.io",
        "PodGroup",
        "podgroups",
        versions=("v1beta1",),
        namespaced=True,
        subresources=(_STATUS,),
        columns=table_columns.POD_GROUPS,
    ),
    Kind("coordination.k8s.io", "Lease", "leases", namespaced=True, columns=table_columns.LEASES),
    Kind(
        "resource.k8s.io",
        "DeviceClass",
        "deviceclasses",
        versions=_DRA_VERSIONS,
        namespaced=False,
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "resource.k8s.io",
        "DeviceTaintRule",
        "devicetaintrules",
        versions=("v1", "v1beta2", "v1alpha3"),
        namespaced=False,
        subresources=(_STATUS,),
        columns=table_columns.DEVICE_TAINT_RULES,
        storage=GroupVersionKind("resource.k8s.io", "v1beta2", "DeviceTaintRule"),
        returns_deleted=True,
        status_of_deleted=("v1",),
    ),
    Kind(
        "resource.k8s.io",
        "ResourceClaim",
        "resourceclaims",
        versions=_DRA_VERSIONS,
        namespaced=True,
        subresources=(_STATUS,),
        columns=table_columns.RESOURCE_CLAIMS,
        returns_deleted=True,
    ),
    Kind(
        "resource.k8s.io",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        versions=_DRA_VERSIONS,
        namespaced=True,
        columns=table_columns.NAME_AND_AGE,
        returns_deleted=True,
    ),
    Kind(
        "resource.k8s.io",
        "ResourcePoolStatusRequest",
        "resourcepoolstatusrequests",
        versions=("v1alpha3",),
        namespaced=False,
        subresources=(_STATUS,),
        columns=table_columns.RESOURCE_POOL_STATUS_REQUESTS,
        returns_deleted=True,
    ),
    Kind(
        "resource.k8s.io",
        "ResourceSlice",
        "resourceslices",
        versions=_DRA_VERSIONS,
        namespaced=False,
        columns=table_columns.RESOURCE_SLICES,
        returns_deleted=True,
    ),
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
RESOURCE_QUOTA = served("", "ResourceQuota")
SECRET = served("", "Secret")
SERVICE_ACCOUNT = served("", "ServiceAccount")
CONTROLLER_REVISION = served("apps", "ControllerRevision")
DAEMON_SET = served("apps", "DaemonSet")
DEPLOYMENT = served("apps", "Deployment")
REPLICA_SET = served("apps", "ReplicaSet")
STATEFUL_SET = served("apps", "StatefulSet")
JOB = served("batch", "Job")
LEASE = served("coordination.k8s.io", "Lease")
POD_DISRUPTION_BUDGET = served("policy", "PodDisruptionBudget")
CLUSTER_ROLE_BINDING = served("rbac.authorization.k8s.io", "ClusterRoleBinding")
DEVICE_CLASS = served("resource.k8s.io", "DeviceClass")
DEVICE_TAINT_RULE = served("resource.k8s.io", "DeviceTaintRule")
RESOURCE_CLAIM = served("resource.k8s.io", "ResourceClaim")
RESOURCE_CLAIM_TEMPLATE = served("resource.k8s.io", "ResourceClaimTemplate")
RESOURCE_POOL_STATUS_REQUEST = served("resource.k8s.io", "ResourcePoolStatusRequest")
RESOURCE_SLICE = served("resource.k8s.io", "ResourceSlice")
POD_GROUP = served("scheduling.k8s.io", "PodGroup")
PRIORITY_CLASS = served("scheduling.k8s.io", "PriorityClass")
