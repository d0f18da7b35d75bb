"""Workloads and claim templates whose templates stay as JSON.

Objects are created from these templates. A typed template has only the fields that dray reads, and
the objects would lose the others.
"""

from __future__ import annotations

from typing import Any

from dray.api.types import workloads
from dray.api.types.meta import ObjectMeta, Wire

Template = dict[str, Any]


class _DeploymentSpec(workloads.DeploymentSpec, frozen=True):
    template: Template = {}  # type: ignore[assignment]


class Deployment(workloads.Deployment, frozen=True):
    spec: _DeploymentSpec = _DeploymentSpec()


class _ReplicaSetSpec(workloads.ReplicaSetSpec, frozen=True):
    template: Template = {}  # type: ignore[assignment]


class ReplicaSet(workloads.ReplicaSet, frozen=True):
    spec: _ReplicaSetSpec = _ReplicaSetSpec()


class _ReplicationControllerSpec(workloads.ReplicationControllerSpec, frozen=True):
    template: Template = {}  # type: ignore[assignment]


class ReplicationController(workloads.ReplicationController, frozen=True):
    spec: _ReplicationControllerSpec = _ReplicationControllerSpec()


class _StatefulSetSpec(workloads.StatefulSetSpec, frozen=True):
    template: Template = {}  # type: ignore[assignment]


class StatefulSet(workloads.StatefulSet, frozen=True):
    spec: _StatefulSetSpec = _StatefulSetSpec()


class _DaemonSetSpec(workloads.DaemonSetSpec, frozen=True):
    template: Template = {}  # type: ignore[assignment]


class DaemonSet(workloads.DaemonSet, frozen=True):
    spec: _DaemonSetSpec = _DaemonSetSpec()


class _JobSpec(workloads.JobSpec, frozen=True):
    template: Template = {}  # type: ignore[assignment]


class Job(workloads.Job, frozen=True):
    spec: _JobSpec = _JobSpec()


class _CronJobSpec(workloads.CronJobSpec, frozen=True):
    job_template: Template = {}  # type: ignore[assignment]


class CronJob(workloads.CronJob, frozen=True):
    spec: _CronJobSpec = _CronJobSpec()


class ClaimTemplate(Wire, frozen=True):
    """A ResourceClaimTemplate; its spec is copied into claims."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


def replicas(workload: Deployment | ReplicaSet | ReplicationController | StatefulSet) -> int:
    return 1 if workload.spec.replicas is None else workload.spec.replicas
