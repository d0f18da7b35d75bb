"""The policies of a job for failed pods and for succeeded indexes.

As pkg/controller/job, pod_failure_policy.go and success_policy.go.
"""

from __future__ import annotations

from typing import NamedTuple

from dray.api.templates.workload_types import Job
from dray.api.types.pods import ContainerStatus, Pod
from dray.api.types.workloads import (
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from dray.controllers.jobs import job_indexes
from dray.controllers.jobs.job_indexes import Indexes

IGNORE, FAIL_JOB, FAIL_INDEX, COUNT = "Ignore", "FailJob", "FailIndex", "Count"


class FailureAction(NamedTuple):
    """The action for a failed pod. `message` is set if the whole job fails."""

    action: str = COUNT
    message: str = ""

    @property
    def counts(self) -> bool:
        return self.action != IGNORE


def failure_action(job: Job, pod: Pod) -> FailureAction:
    """Return the action of the first matching rule of the pod failure policy."""
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy else ()):
        cause = _cause(rule, pod)
        if not cause:
            continue
        if rule.action != FAIL_JOB:
            return FailureAction(rule.action)
        return FailureAction(FAIL_JOB, f"{cause} matching {rule.action} rule at index {index}")
    return FailureAction()


def _cause(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return the beginning of the message if the rule matches, else ""."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        status = _matching_container(rule.on_exit_codes, pod)
        if status is None or status.state.terminated is None:
            return ""
        code = status.state.terminated.exit_code
        return f"Container {status.name} for pod {name} failed with exit code {code}"
    patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"Pod {name} has condition {condition.type}"
    return ""


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


def success_message(job: Job, succeeded: Indexes) -> str:
    """Return why the job already counts as successful, or ""."""
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
