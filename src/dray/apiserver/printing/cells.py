"""The cells of each kind for the columns of `api.table_columns`.

As pkg/printers/internalversion/printers.go. Rows are complete; `kubectl` hides the columns of
`-o wide`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dray.api.conversion import versions
from dray.api.formats.durations import UNKNOWN, human_duration, since
from dray.api.types.meta import JsonObject
from dray.apiserver.printing import pod_summary

Cells = list[Any]
CellFunction = Callable[[JsonObject, datetime.datetime], Cells]

NONE = "<none>"
UNSET = "<unset>"


def cells(group: str, kind: str, document: JsonObject, now: datetime.datetime) -> Cells:
    """Return the cells of one object; without columns of its kind, name and creation."""
    function = _FUNCTIONS.get((group, kind))
    if function is not None:
        return function(document, now)
    metadata = document["metadata"]
    return [metadata["name"], metadata.get("creationTimestamp")]


def _named(
    *functions: Callable[[JsonObject], Any], wide: tuple[Callable[[JsonObject], Any], ...] = ()
) -> CellFunction:
    """Return a function for rows: name, results of the functions, age, then wide columns."""

    def row(document: JsonObject, now: datetime.datetime) -> Cells:
        metadata = document["metadata"]
        shown = [function(document) for function in functions]
        age = since(metadata.get("creationTimestamp"), now)
        return [metadata["name"], *shown, age, *(function(document) for function in wide)]

    return row


def _at(*path: str, default: Any = "") -> Callable[[JsonObject], Any]:
    """Return a function for the value at a path, or `default` if it is absent."""

    def read(document: JsonObject) -> Any:
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    return read


def _count(*path: str) -> Callable[[JsonObject], int]:
    read = _at(*path, default=())
    return lambda document: len(read(document))


def _joined(values: Iterable[str], separator: str = ",", empty: str = NONE) -> str:
    return separator.join(values) or empty


def _labels(labels: dict[str, str] | None) -> str:
    return _joined(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def _selector(selector: JsonObject | None) -> str:
    """Return a LabelSelector as text, as `metav1.FormatLabelSelector`."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
        words |= {"Exists": key, "DoesNotExist": f"!{key}"}
        parts.append(words.get(operator, key))
    return _joined(sorted(parts))


def _template_containers(field: str, *above: str) -> Callable[[JsonObject], str]:
    """Return a function for the values of a field of all containers of a pod template."""
    read = _at(*above, "template", "spec", "containers", default=())
    return lambda document: ",".join(container.get(field, "") for container in read(document))


def _spec_selector(document: JsonObject) -> str:
    return _selector(document.get("spec", {}).get("selector"))


_TEMPLATE = (_template_containers("name", "spec"), _template_containers("image", "spec"))


def _pod_template(document: JsonObject, _now: datetime.datetime) -> Cells:
    containers = [_template_containers(field)(document) for field in ("name", "image")]
    labels = _at("template", "metadata", "labels", default=None)(document)
    return [document["metadata"]["name"], *containers, _labels(labels)]


def _pod(document: JsonObject, now: datetime.datetime) -> Cells:
    summary = pod_summary.summarize(document)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{summary.restarts} ({since(summary.last_restart, now)} ago)"
    metadata = document["metadata"]
    spec, status = document.get("spec", {}), document.get("status", {})
    addresses = [address.get("ip", "") for address in status.get("podIPs") or ()]
    return [
        metadata["name"],
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        since(metadata.get("creationTimestamp"), now),
        (addresses or [""])[0] or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def _readiness_gates(spec: JsonObject, status: JsonObject) -> str:
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    if not gates:
        return NONE
    conditions = {item["type"]: item.get("status") for item in status.get("conditions") or ()}
    passed = sum(conditions.get(gate) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


def _node_status(document: JsonObject) -> str:
    conditions = _at("status", "conditions", default=())(document)
    ready = [item.get("status") for item in conditions if item.get("type") == "Ready"]
    words = ["Unknown" if not ready else "Ready" if ready[-1] == "True" else "NotReady"]
    if document.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(document: JsonObject) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = document["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    roles |= {value for key, value in labels.items() if key == "kubernetes.io/role"}
    return _joined(sorted(filter(None, roles)))


def _node_address(document: JsonObject, *, type_: str) -> str:
    addresses = _at("status", "addresses", default=())(document)
    return next((item["address"] for item in addresses if item["type"] == type_), NONE)


def _node_info(field: str, default: str = UNKNOWN) -> Callable[[JsonObject], str]:
    read = _at("status", "nodeInfo", field)
    return lambda document: read(document) or default


def _kernel(document: JsonObject) -> str:
    architecture = _node_info("architecture", "")(document)
    kernel = _node_info("kernelVersion")(document)
    return f"{kernel} ({architecture})" if architecture else kernel


def _event(document: JsonObject, now: datetime.datetime) -> Cells:
    first = document.get("firstTimestamp") or document.get("eventTime")
    last = document.get("lastTimestamp") or first
    count = document.get("count") or 1
    if series := document.get("series"):
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    involved, source = document.get("involvedObject", {}), document.get("source") or {}
    component = source.get("component") or document.get("reportingComponent", "")
    instance = source.get("host") or document.get("reportingInstance", "")
    kind = involved.get("kind", "").lower()
    return [
        since(last, now),
        document.get("type", ""),
        document.get("reason", ""),
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        document.get("message", "").strip(),
        since(first, now),
        count,
        document["metadata"]["name"],
    ]


def _new_event(document: JsonObject, now: datetime.datetime) -> Cells:
    """Return the cells of an event of events.k8s.io: those of the stored core event."""
    named = {**document, "apiVersion": "events.k8s.io/v1", "kind": "Event"}
    return _event(versions.to_storage(named), now)


def _controller(document: JsonObject) -> str:
    """Return the controller of an object, as `statefulset.apps/web`."""
    for owner in document["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return NONE


def _quota(document: JsonObject, *, limits: bool) -> str:
    status = document.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def _ready_of_desired(document: JsonObject) -> str:
    ready = _at("status", "readyReplicas", default=0)(document)
    return f"{ready}/{_at('spec', 'replicas', default=0)(document)}"


_JOB_STATES = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")
"""The conditions of a job, the first that holds is shown; an empty one for its deletion."""


def _job(document: JsonObject, now: datetime.datetime) -> Cells:
    metadata, status = document["metadata"], document.get("status", {})
    return [
        metadata["name"],
        _job_state(metadata, status),
        _completions(document.get("spec", {}), status),
        _job_duration(status, now),
        since(metadata.get("creationTimestamp"), now),
        *(function(document) for function in _TEMPLATE),
        _spec_selector(document),
    ]


def _cron_job(document: JsonObject, now: datetime.datetime) -> Cells:
    metadata, spec, status = (document.get(part) or {} for part in ("metadata", "spec", "status"))
    last, suspend = status.get("lastScheduleTime"), spec.get("suspend")
    template = spec.get("jobTemplate") or {}
    return [
        metadata["name"],
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        "<unset>" if suspend is None else str(suspend).capitalize(),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        since(metadata.get("creationTimestamp"), now),
        *(function(template) for function in _TEMPLATE),
        _spec_selector(template),
    ]


def _job_state(metadata: JsonObject, status: JsonObject) -> str:
    """Return the first state that applies, in the order of the table."""
    conditions = status.get("conditions") or ()
    holding = {item["type"] for item in conditions if item.get("status") == "True"}
    if metadata.get("deletionTimestamp"):
        holding.add("")
    return next(filter(holding.__contains__, _JOB_STATES), "Running") or "Terminating"


def _completions(spec: JsonObject, status: JsonObject) -> str:
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: JsonObject, now: datetime.datetime) -> str:
    if not status.get("startTime"):
        return ""
    started = datetime.datetime.fromisoformat(status["startTime"])
    ended = status.get("completionTime")
    return human_duration((datetime.datetime.fromisoformat(ended) if ended else now) - started)


def _role_reference(document: JsonObject) -> str:
    reference = document.get("roleRef", {})
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(document: JsonObject, *, kind: str) -> str:
    subjects = document.get("subjects") or ()
    return ", ".join(
        f"{subject['namespace']}/{subject['name']}" if kind == "ServiceAccount" else subject["name"]
        for subject in subjects
        if subject.get("kind") == kind
    )


_SUBJECTS = tuple(partial(_subjects, kind=kind) for kind in ("User", "Group", "ServiceAccount"))


def _budget(field: str) -> Callable[[JsonObject], str]:
    read = _at("spec", field, default="N/A")
    return lambda document: str(read(document))


def _group_policy(document: JsonObject) -> str:
    return "Gang" if _at("spec", "schedulingPolicy", "gang", default=None)(document) else "Basic"


def _group_status(document: JsonObject) -> str:
    conditions = {item["type"]: item for item in _at("status", "conditions", default=())(document)}
    if disruption := conditions.get("DisruptionTarget"):
        return str(disruption.get("reason", ""))
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def claim_state(document: JsonObject) -> str:
    """Return `pending`, `allocated` or `allocated,reserved`, after `deleted,` if it is deleted."""
    deleted = bool(document["metadata"].get("deletionTimestamp"))
    status = document.get("status") or {}
    words = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        words += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        words.append("pending")
    return ",".join(words)


def _taint_rule(document: JsonObject, now: datetime.datetime) -> Cells:
    metadata, taint = document["metadata"], document.get("spec", {}).get("taint", {})
    return [
        metadata["name"],
        taint.get("key", ""),
        taint.get("value", ""),
        taint.get("effect", ""),
        since(taint.get("timeAdded"), now),
        since(metadata.get("creationTimestamp"), now),
    ]


_POOL_COUNTS = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")


def _pool_status_request(document: JsonObject, now: datetime.datetime) -> Cells:
    status = document.get("status")
    pools = (status or {}).get("pools") or ()
    state, completed = _pool_status_state(status or {})
    counts = ["-"] * 5
    if status is not None and state != "Failed":
        counts = [str(sum(pool.get(field, 0) for pool in pools)) for field in _POOL_COUNTS]
        counts.append(str(sum("validationError" in pool for pool in pools)))
    return [
        document["metadata"]["name"],
        document.get("spec", {}).get("driver", ""),
        *counts,
        (status or {}).get("poolCount", 0),
        state,
        since(completed, now) if completed else NONE,
    ]


def _pool_status_state(status: JsonObject) -> tuple[str, str | None]:
    for condition in status.get("conditions") or ():
        if condition.get("status") != "True":
            continue
        if condition["type"] == "Complete":
            shown, total = len(status.get("pools") or ()), status.get("poolCount", 0)
            word = f"Complete ({shown}/{total} pools)" if total > shown else "Complete"
            return word, condition.get("lastTransitionTime")
        if condition["type"] == "Failed":
            return "Failed", None
    return "Pending", None


_WIDE_TEMPLATE = (*_TEMPLATE, _spec_selector)


def _status_numbers(*fields: str) -> list[Callable[[JsonObject], Any]]:
    return [_at("status", field, default=0) for field in fields]


_NAME_AND_AGE = (
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "ResourceClaimTemplate"),
    ("scheduling.k8s.io", "Workload"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
)


def _param_kind(policy: JsonObject) -> str:
    kind = _at("spec", "paramKind")(policy)
    return f"{kind['apiVersion']}/{kind['kind']}" if kind else UNSET


def _param_ref(binding: JsonObject) -> str:
    reference = _at("spec", "paramRef", default={})(binding)
    if reference.get("name"):
        # Whether the parameter is in a namespace is not known here.
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return UNSET if reference.get("selector") is None else _go_selector(reference["selector"])


def _go_selector(selector: JsonObject) -> str:
    """Return a LabelSelector as Go prints the structure."""
    labels = "".join(f"{key}: {value}," for key, value in _sorted_labels(selector))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item['key']},Operator:{item['operator']},"
        f"Values:[{' '.join(item.get('values') or ())}],}},"
        for item in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _sorted_labels(selector: JsonObject) -> list[tuple[str, str]]:
    return sorted((selector.get("matchLabels") or {}).items())


_FUNCTIONS: dict[tuple[str, str], CellFunction] = {
    **dict.fromkeys(_NAME_AND_AGE, _named()),
    ("", "Pod"): _pod,
    ("", "Node"): _named(
        _node_status,
        _node_roles,
        wide=(
            _node_info("kubeletVersion", ""),
            partial(_node_address, type_="InternalIP"),
            partial(_node_address, type_="ExternalIP"),
            _node_info("osImage"),
            _kernel,
            _node_info("containerRuntimeVersion"),
        ),
    ),
    ("", "Namespace"): _named(_at("status", "phase")),
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _new_event,
    ("", "ConfigMap"): _named(
        lambda document: len(document.get("data") or ()) + len(document.get("binaryData") or ())
    ),
    ("apps", "ControllerRevision"): _named(_controller, _at("revision")),
    ("", "Secret"): _named(_at("type"), _count("data")),
    ("", "ResourceQuota"): _named(partial(_quota, limits=False), partial(_quota, limits=True)),
    ("apps", "Deployment"): _named(
        _ready_of_desired,
        *_status_numbers("updatedReplicas", "availableReplicas"),
        wide=_WIDE_TEMPLATE,
    ),
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): _named(
        _at("spec", "replicas", default=0),
        *_status_numbers("replicas", "readyReplicas"),
        wide=(*_TEMPLATE, lambda document: _labels(_at("spec", "selector")(document) or {})),
    ),
    ("apps", "ReplicaSet"): _named(
        _at("spec", "replicas", default=0),
        *_status_numbers("replicas", "readyReplicas"),
        wide=_WIDE_TEMPLATE,
    ),
    ("apps", "StatefulSet"): _named(_ready_of_desired, wide=_TEMPLATE),
    ("apps", "DaemonSet"): _named(
        *_status_numbers("desiredNumberScheduled", "currentNumberScheduled", "numberReady"),
        *_status_numbers("updatedNumberScheduled", "numberAvailable"),
        lambda document: _labels(_at("spec", "template", "spec", "nodeSelector")(document) or {}),
        wide=_WIDE_TEMPLATE,
    ),
    ("batch", "CronJob"): _cron_job,
    ("batch", "Job"): _job,
    ("coordination.k8s.io", "Lease"): _named(_at("spec", "holderIdentity")),
    ("policy", "PodDisruptionBudget"): _named(
        _budget("minAvailable"),
        _budget("maxUnavailable"),
        _at("status", "disruptionsAllowed", default=0),
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _named(_role_reference, wide=_SUBJECTS),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _named(_role_reference, wide=_SUBJECTS),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _named(
        _count("spec", "validations"), _param_kind
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _named(
        _at("spec", "policyName"), _param_ref
    ),
    ("node.k8s.io", "RuntimeClass"): _named(_at("handler")),
    ("scheduling.k8s.io", "PriorityClass"): _named(
        _at("value", default=0),
        _at("globalDefault", default=False),
        wide=(_at("preemptionPolicy"),),
    ),
    ("scheduling.k8s.io", "PodGroup"): _named(
        _group_policy,
        _at("spec", "workloadRef", "workloadName", default=NONE),
        _group_status,
    ),
    ("resource.k8s.io", "ResourceClaim"): _named(claim_state),
    ("resource.k8s.io", "ResourceSlice"): _named(
        _at("spec", "nodeName"), _at("spec", "driver"), _at("spec", "pool", "name")
    ),
    ("resource.k8s.io", "DeviceTaintRule"): _taint_rule,
    ("resource.k8s.io", "ResourcePoolStatusRequest"): _pool_status_request,
}
