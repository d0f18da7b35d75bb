"""Kinds that create pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job …; and PodGroup."""

from __future__ import annotations

from typing import Any

from msgspec import field

from dray.api.types.core import ObjectReference
from dray.api.types.meta import Condition, LabelSelector, ObjectMeta, Wire
from dray.api.types.pods import PodTemplateSpec


class ControllerRevision(Wire, frozen=True):
    """A state that a workload had, kept by its controller to return to."""

    metadata: ObjectMeta = ObjectMeta()
    data: Any = None
    revision: int = 0


class WorkloadCondition(Wire, frozen=True):
    """The condition of a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    type: str = ""
    status: str = ""
    last_probe_time: str | None = None
    last_update_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class RollingUpdateDeployment(Wire, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(Wire, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(Wire, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(Wire, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()
    collision_count: int | None = None


class Deployment(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Wire, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(Wire, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicaSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(Wire, frozen=True):
    """As that of a ReplicaSet, with plain labels for a selector."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    match_labels: dict[str, str] = field(default_factory=dict, name="selector")
    template: PodTemplateSpec | None = None

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector(match_labels=self.match_labels)


class ReplicationController(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class PodTemplate(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class RollingUpdateStatefulSetStrategy(Wire, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None


class StatefulSetUpdateStrategy(Wire, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateStatefulSetStrategy | None = None


class StatefulSetOrdinals(Wire, frozen=True):
    start: int = 0


class StatefulSetSpec(Wire, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[dict[str, Any], ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(Wire, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()
    available_replicas: int = 0


class StatefulSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class RollingUpdateDaemonSet(Wire, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DaemonSetUpdateStrategy(Wire, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(Wire, frozen=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(Wire, frozen=True):
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class DaemonSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class PodFailurePolicyOnExitCodesRequirement(Wire, frozen=True):
    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class PodFailurePolicyOnPodConditionsPattern(Wire, frozen=True):
    type: str = ""
    status: str = ""


class PodFailurePolicyRule(Wire, frozen=True):
    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Wire, frozen=True):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Wire, frozen=True):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Wire, frozen=True):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Wire, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class UncountedTerminatedPods(Wire, frozen=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire, frozen=True):
    conditions: tuple[WorkloadCondition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Wire, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(Wire, frozen=True):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class GangSchedulingPolicy(Wire, frozen=True):
    min_count: int = 0


class BasicSchedulingPolicy(Wire, frozen=True):
    pass


class PodGroupSchedulingPolicy(Wire, frozen=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Wire, frozen=True):
    key: str = ""


class PodGroupSchedulingConstraints(Wire, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Wire, frozen=True):
    """A claim that all pods of the group share: by name, or made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WorkloadReference(Wire, frozen=True):
    workload_name: str = ""
    template_name: str = ""


class SingleDisruptionMode(Wire, frozen=True):
    pass


class AllDisruptionMode(Wire, frozen=True):
    pass


class DisruptionMode(Wire, frozen=True):
    single: SingleDisruptionMode | None = None
    all: AllDisruptionMode | None = None


class PodGroupSpec(Wire, frozen=True):
    workload_ref: WorkloadReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class PodGroupTemplate(Wire, frozen=True):
    """The part of a Workload from which a PodGroup is made."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class ControllerReference(Wire, frozen=True):
    """The object in the same namespace that a Workload belongs to."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Wire, frozen=True):
    controller_ref: ControllerReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[dict[str, Any], ...] = ()


class Workload(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class PodGroupResourceClaimStatus(Wire, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
