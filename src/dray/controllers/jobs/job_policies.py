"""What a job's own policies say of failed pods and of succeeded indexes.

As pkg/controller/job, pod_failure_policy.go and success_policy.go.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.api.types.pods import ContainerStatus, Pod, PodCondition
from dray.api.types.workloads import (
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from dray.controllers.jobs import job_indexes
from dray.controllers.jobs.job_indexes import Indexes
from dray.controllers.slim_types import Job

IGNORE, FAIL_JOB, FAIL_INDEX, COUNT = "Ignore", "FailJob", "FailIndex", "Count"


class FailureVerdict(NamedTuple):
    """What to do about a failed pod; `message` says why the whole job fails."""

    action: str = COUNT
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != IGNORE


def judge_failure(job: Job, pod: Pod) -> FailureVerdict:
    """The first rule of the pod failure policy that matches decides."""
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy else ()):
        cause = _cause(rule, pod)
        if not cause:
            continue
        if rule.action != FAIL_JOB:
            return FailureVerdict(rule.action)
        return FailureVerdict(FAIL_JOB, f"{cause} matching {rule.action} rule at index {index}")
    return FailureVerdict()


def _cause(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Why the rule matches, as the message begins; empty when it does not."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        status = _matching_container(rule.on_exit_codes, pod)
        if status is None or status.state.terminated is None:
            return ""
        code = status.state.terminated.exit_code
        return f"Container {status.name} for pod {name} failed with exit code {code}"
    condition = _matching_condition(rule, pod)
    return f"Pod {name} has condition {condition.type}" if condition else ""


def _matching_container(
    requirement: PodFailurePolicyOnExitCodesRequirement, pod: Pod
) -> ContainerStatus | None:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        terminated = status.state.terminated
        if terminated is None or terminated.exit_code == 0:
            continue
        if requirement.container_name not in (None, status.name):
            continue
        is_listed = terminated.exit_code in requirement.values
        if is_listed == (requirement.operator == "In"):
            return status
    return None


def _matching_condition(rule: PodFailurePolicyRule, pod: Pod) -> PodCondition | None:
    patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    return next(
        (
            condition
            for condition in pod.status.conditions
            if (condition.type, condition.status) in patterns
        ),
        None,
    )


def success_message(job: Job, succeeded: Indexes) -> str:
    """Why the job counts as successful already; empty when it does not."""
    policy = job.spec.success_policy
    if policy is None or not succeeded:
        return ""
    for index, rule in enumerate(policy.rules):
        if _is_met(rule, succeeded, job.spec.completions or 0):
            return f"Matched rules at index {index}"
    return ""


def _is_met(rule: SuccessPolicyRule, succeeded: Indexes, completions: int) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(succeeded) >= rule.succeeded_count
    required = job_indexes.parse(rule.succeeded_indexes, completions)
    reached = len(required & succeeded)
    if not required:
        return False
    enough = rule.succeeded_count is not None and reached >= rule.succeeded_count
    return enough or reached == len(required)
