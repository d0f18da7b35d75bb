"""The descriptions of deployments and jobs as in kubectl, pkg/describe/describe.go.

Tabs separate columns; `describe` aligns them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dray.api.formats import durations
from dray.cli.verbs.descriptions import pods

Object = Mapping[str, Any]

_REVISION = "deployment.kubernetes.io/revision"
_JOB_FIELDS = {
    "Completion Mode": "completionMode",
    "Suspend": "suspend",
    "Backoff Limit": "backoffLimit",
    "TTL Seconds After Finished": "ttlSecondsAfterFinished",
}
_INDEXES_SHOWN = 50


def selector(workload: Object) -> str:
    """Return the label selector of a workload as text."""
    written = workload["spec"].get("selector") or {}
    equal = [f"{key}={value}" for key, value in (written.get("matchLabels") or {}).items()]
    others = [_requirement(item) for item in written.get("matchExpressions") or ()]
    return ",".join(sorted([*equal, *others]))


def _requirement(item: Object) -> str:
    key, operator = item["key"], item["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return f"{'!' if operator == 'DoesNotExist' else ''}{key}"
    values = ",".join(sorted(item.get("values") or ()))
    return f"{key} {'in' if operator == 'In' else 'notin'} ({values})"


def above_labels(workload: Object) -> Iterator[str]:
    """Yield the lines between the namespace and the labels."""
    if workload["kind"] == "Job":
        yield f"Selector:\t{selector(workload)}"
    elif created := workload["metadata"].get("creationTimestamp"):
        yield f"CreationTimestamp:\t{pods.time_text(created)}"


def below_annotations(workload: Object) -> Iterator[str]:
    return _job(workload) if workload["kind"] == "Job" else _deployment(workload)


def _deployment(deployment: Object) -> Iterator[str]:
    spec, status = deployment["spec"], deployment.get("status") or {}
    counts = {
        "desired": spec.get("replicas", 1),
        "updated": status.get("updatedReplicas", 0),
        "total": status.get("replicas", 0),
        "available": status.get("availableReplicas", 0),
        "unavailable": status.get("unavailableReplicas", 0),
    }
    strategy = spec.get("strategy") or {}
    yield f"Selector:\t{selector(deployment)}"
    yield f"Replicas:\t{' | '.join(f'{count} {name}' for name, count in counts.items())}"
    yield f"StrategyType:\t{strategy.get('type', '')}"
    yield f"MinReadySeconds:\t{spec.get('minReadySeconds', 0)}"
    if rolling := strategy.get("rollingUpdate"):
        most, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield f"RollingUpdateStrategy:\t{most} max unavailable, {surge} max surge"
    yield from _pod_template(spec.get("template") or {})
    conditions = status.get("conditions") or ()
    if conditions:
        yield "Conditions:"
        yield "  Type\tStatus\tReason"
        yield "  ----\t------\t------"
    for condition in conditions:
        yield f"  {condition['type']} \t{condition['status']}\t{condition.get('reason', '')}"


def _job(job: Object) -> Iterator[str]:
    spec, status = job["spec"], job.get("status") or {}
    yield from pods.controlled_by(job)
    if "parallelism" in spec:
        yield f"Parallelism:\t{spec['parallelism']}"
    yield f"Completions:\t{spec.get('completions', '<unset>')}"
    for title, field in _JOB_FIELDS.items():
        if field in spec:
            value = spec[field]
            yield f"{title}:\t{str(value).lower() if isinstance(value, bool) else value}"
    begun, ended = status.get("startTime"), status.get("completionTime")
    if begun:
        yield f"Start Time:\t{pods.time_text(begun)}"
    if ended:
        yield f"Completed At:\t{pods.time_text(ended)}"
    if begun and ended:
        seconds = _time(ended) - _time(begun)
        yield f"Duration:\t{durations.human_duration(seconds)}"
    if "activeDeadlineSeconds" in spec:
        yield f"Active Deadline Seconds:\t{spec['activeDeadlineSeconds']}s"
    ready = f" ({status['ready']} Ready)" if status.get("ready") is not None else ""
    finished = f"{status.get('succeeded', 0)} Succeeded / {status.get('failed', 0)} Failed"
    yield f"Pods Statuses:\t{status.get('active', 0)} Active{ready} / {finished}"
    if spec.get("completionMode") == "Indexed":
        indexes = status.get("completedIndexes") or pods.NONE
        shown = indexes if len(indexes) <= _INDEXES_SHOWN else f"{indexes[:_INDEXES_SHOWN]}..."
        yield f"Completed Indexes:\t{shown}"
    yield from _pod_template(spec.get("template") or {})


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _pod_template(template: Object) -> Iterator[str]:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield "Pod Template:"
    labels = [f"{key}={value}" for key, value in sorted((metadata.get("labels") or {}).items())]
    yield from pods.multiline("  Labels", labels)
    if notes := metadata.get("annotations"):
        written = [f"{key}: {value}" for key, value in sorted(notes.items())]
        yield from pods.multiline("  Annotations", written)
    if account := spec.get("serviceAccountName"):
        yield f"  Service Account:\t{account}"
    if first := spec.get("initContainers"):
        yield from pods.containers("  Init Containers", first, None, "   ")
    yield from pods.containers("  Containers", spec.get("containers") or (), None, "   ")
    yield from pods.volumes(spec.get("volumes") or (), "  ")
    if priority := spec.get("priorityClassName"):
        yield f"  Priority Class Name:\t{priority}"
    yield from pods.placement(spec, "  ")


def replica_sets(deployment: Object, owned: Sequence[Object]) -> Iterator[str]:
    """Yield the ReplicaSets of a deployment: those of earlier revisions, and the current one."""
    revision = (deployment["metadata"].get("annotations") or {}).get(_REVISION)
    by_age = sorted(owned, key=lambda item: str(item["metadata"].get("creationTimestamp")))
    new = [item for item in by_age if _revision(item) == revision]
    old = [item for item in by_age if _revision(item) != revision]
    if by_age:
        yield f"OldReplicaSets:\t{', '.join(map(_created, old)) or pods.NONE}"
        yield f"NewReplicaSet:\t{', '.join(map(_created, new)) or pods.NONE}"


def _revision(item: Object) -> str | None:
    return (item["metadata"].get("annotations") or {}).get(_REVISION)


def _created(item: Object) -> str:
    count, wanted = (item.get("status") or {}).get("replicas", 0), item["spec"].get("replicas", 1)
    return f"{item['metadata']['name']} ({count}/{wanted} replicas created)"
