"""The kinds the loops read and write."""

from __future__ import annotations

from dray.api import kinds
from dray.api.kinds import Kind


def _kind(group: str, kind: str) -> Kind:
    found = kinds.by_kind(group, kind)
    assert found is not None, (group, kind)
    return found


NAMESPACE = _kind("", "Namespace")
NODE = _kind("", "Node")
POD = _kind("", "Pod")
QUOTA = _kind("", "ResourceQuota")
DAEMON_SET = _kind("apps", "DaemonSet")
DEPLOYMENT = _kind("apps", "Deployment")
REPLICA_SET = _kind("apps", "ReplicaSet")
STATEFUL_SET = _kind("apps", "StatefulSet")
JOB = _kind("batch", "Job")
LEASE = _kind("coordination.k8s.io", "Lease")
CLAIM = _kind("resource.k8s.io", "ResourceClaim")
CLAIM_TEMPLATE = _kind("resource.k8s.io", "ResourceClaimTemplate")
DEVICE_CLASS = _kind("resource.k8s.io", "DeviceClass")
POOL_STATUS_REQUEST = _kind("resource.k8s.io", "ResourcePoolStatusRequest")
SLICE = _kind("resource.k8s.io", "ResourceSlice")
TAINT_RULE = _kind("resource.k8s.io", "DeviceTaintRule")
POD_GROUP = _kind("scheduling.k8s.io", "PodGroup")


def api_version(kind: Kind) -> str:
    return kinds.api_version(kind.group, kind.versions[0])


def identity(kind: Kind) -> dict[str, str]:
    """What every body of the kind begins with."""
    return {"apiVersion": api_version(kind), "kind": kind.kind}
