"""Rules for Job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects

UID = "11111111-2222-3333-4444-555555555555"
LABELS = {
    "controller-uid": UID,
    "job-name": "example",
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "example",
}


def template(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": LABELS},
        "spec": objects.pod_spec(**{"restartPolicy": "Never", **spec}),
    }


def job(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    content = {
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
        "template": template(),
        **spec,
    }
    value = {
        "kind": "Job",
        "metadata": objects.metadata(uid=UID),
        "spec": content,
        "status": status or {},
    }
    return objects.decode(value, "batch/v1")


def created(**spec: Any) -> list[str]:
    return objects.created("Job", job(**spec))


def updated(new: Any, old: Any) -> list[str]:
    return objects.updated("Job", new, old)


def test_a_plain_job_is_valid() -> None:
    assert not created()


def test_an_indexed_job_is_valid() -> None:
    assert not created(completionMode="Indexed", completions=10, parallelism=5)


@pytest.mark.parametrize("policy", ["Always", None])
def test_pods_of_a_job_come_to_an_end(policy: str | None) -> None:
    assert created(template=template(restartPolicy=policy)) == [
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
    ]


@pytest.mark.parametrize("field", ["parallelism", "completions", "backoffLimit"])
def test_numbers_are_not_negative(field: str) -> None:
    assert created(**{field: -1}) == [
        f"spec.{field}: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_indexes_need_completions() -> None:
    assert created(completionMode="Indexed", parallelism=2) == [
        "spec.completions: Required value: when completion mode is Indexed"
    ]


def test_limits_per_index_need_indexes() -> None:
    assert created(backoffLimitPerIndex=1) == [
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"
    ]


def test_labels_that_the_server_generates_cannot_be_taken() -> None:
    pods = template()
    pods["metadata"] = {"labels": {**LABELS, "job-name": "other"}}
    (message,) = created(template=pods)
    assert message.startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert message.endswith(": must be 'example'")


def test_a_failure_rule_looks_at_exit_codes_or_conditions() -> None:
    policy = {"rules": [{"action": "FailJob"}]}
    assert created(podFailurePolicy=policy) == [
        "spec.podFailurePolicy.rules[0]: Invalid value: "
        "specifying one of OnExitCodes and OnPodConditions is required"
    ]


def test_exit_codes_of_a_failure_rule_are_ordered_and_distinct() -> None:
    codes = {"operator": "In", "values": [2, 1, 2, 0]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    path = "spec.podFailurePolicy.rules[0].onExitCodes.values"
    assert created(podFailurePolicy=policy) == [
        f"{path}[2]: Duplicate value: 2",
        f"{path}[3]: Invalid value: 0: must not be 0 for the In operator",
        f"{path}: Invalid value: [2,1,2,0]: must be ordered",
    ]


def test_parallelism_may_change() -> None:
    assert not updated(job(parallelism=5), job(parallelism=1))


def test_completions_of_indexes_change_with_parallelism() -> None:
    old = job(completionMode="Indexed", completions=2, parallelism=2)
    assert not updated(job(completionMode="Indexed", completions=3, parallelism=3), old)
    assert updated(job(completionMode="Indexed", completions=3, parallelism=2), old) == [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]


def test_the_template_of_a_running_job_is_immutable() -> None:
    (message,) = updated(job(template=template(nodeSelector={"a": "b"})), job())
    assert message.startswith("spec.template: Invalid value: {")
    assert message.endswith(": field is immutable")


def test_a_suspended_job_may_be_moved_and_resized() -> None:
    main = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}
    moved = template(nodeSelector={"a": "b"}, containers=[main])
    assert not updated(job(suspend=True, template=moved), job(suspend=True))


def test_a_suspended_job_may_not_run_something_else() -> None:
    other = template(containers=[{"name": "main", "image": "other"}])
    (message,) = updated(job(suspend=True, template=other), job(suspend=True))
    assert message.startswith("spec.template.spec: Invalid value: {")
