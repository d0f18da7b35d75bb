"""The kinds the loops read and write."""

from __future__ import annotations

from dray.api import kinds
from dray.api.kinds import Kind

NAMESPACE = kinds.served("", "Namespace")
NODE = kinds.served("", "Node")
POD = kinds.served("", "Pod")
QUOTA = kinds.served("", "ResourceQuota")
SERVICE_ACCOUNT = kinds.served("", "ServiceAccount")
CONTROLLER_REVISION = kinds.served("apps", "ControllerRevision")
DAEMON_SET = kinds.served("apps", "DaemonSet")
DEPLOYMENT = kinds.served("apps", "Deployment")
REPLICA_SET = kinds.served("apps", "ReplicaSet")
STATEFUL_SET = kinds.served("apps", "StatefulSet")
JOB = kinds.served("batch", "Job")
LEASE = kinds.served("coordination.k8s.io", "Lease")
BUDGET = kinds.served("policy", "PodDisruptionBudget")
CLAIM = kinds.served("resource.k8s.io", "ResourceClaim")
CLAIM_TEMPLATE = kinds.served("resource.k8s.io", "ResourceClaimTemplate")
DEVICE_CLASS = kinds.served("resource.k8s.io", "DeviceClass")
POOL_STATUS_REQUEST = kinds.served("resource.k8s.io", "ResourcePoolStatusRequest")
SLICE = kinds.served("resource.k8s.io", "ResourceSlice")
TAINT_RULE = kinds.served("resource.k8s.io", "DeviceTaintRule")
POD_GROUP = kinds.served("scheduling.k8s.io", "PodGroup")


def api_version(kind: Kind) -> str:
    return kind.preferred.api_version


def identity(kind: Kind) -> dict[str, str]:
    """What every body of the kind begins with."""
    return {"apiVersion": api_version(kind), "kind": kind.kind}
