"""Pods that have come to different places, each with what it meets there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from dray.api.ids import ClaimKey
from dray.api.types.core import (
    CoreEvent,
    ObjectReference,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
)
from dray.api.types.dra import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourceSlice,
)
from dray.api.types.meta import (
    Condition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from dray.api.types.nodes import Node, NodeCondition, NodeStatus
from dray.api.types.pods import Pod
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation
from dray.explain.pod.pod_context import PodContext
from tests import builders
from tests.builders import DRIVER, claim, cluster_inventory, gpu_slice, request

GPU = f"{DRIVER}/n1/gpu-0"
ON_NODE_1 = NodeSelector(
    (
        NodeSelectorTerm(
            match_fields=(NodeSelectorRequirement("metadata.name", "In", ("n1",)),),
        ),
    )
)


class Situation(NamedTuple):
    pod: Pod
    context: PodContext
    explanation: Explanation | None = None


WAYS: dict[str, Callable[[], Situation]] = {}


def way(build: Callable[[], Situation]) -> Callable[[], Situation]:
    """Enter a situation into the table under its name."""
    WAYS[build.__name__.replace("_", "-")] = build
    return build


def pod(
    *,
    claim_name: str | None = "one",
    template_name: str = "template",
    status: Any = None,
    **spec: Any,
) -> Pod:
    """Return a pod with one claim, or with one from a template where none is named."""
    resources = {"claims": [{"name": "gpu"}]}
    spec.setdefault("containers", [{"name": "main", "image": "pause", "resources": resources}])
    return builders.pod(
        namespace="team",
        uid="1",
        claims={"gpu": claim_name} if claim_name else None,
        templates=None if claim_name else {"gpu": template_name},
        status={"phase": "Pending", **(status or {})},
        **spec,
    )


def refused(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"conditions": [{**condition, "message": message}]}


def waiting_claim(
    name: str = "one", namespace: str = "team", **request_settings: Any
) -> ResourceClaim:
    return claim(request("gpu", **request_settings), name=name, namespace=namespace)


def allocated(result: dict[str, Any] | None = None, **status: Any) -> ResourceClaim:
    place: dict[str, Any] = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    devices = DeviceAllocationResult((DeviceRequestAllocationResult(**place, **(result or {})),))
    allocation = AllocationResult(devices=devices, node_selector=ON_NODE_1)
    return msgspec.structs.replace(
        waiting_claim(), status=ResourceClaimStatus(allocation, **status)
    )


def node(name: str = "n1", ready: str = "True", message: str = "", **labels: str) -> Node:
    conditions = (NodeCondition(type="Ready", status=ready, message=message),)
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(conditions=conditions))


def warning(reason: str, message: str) -> CoreEvent:
    about = ObjectReference(kind="Pod", namespace="team", name="train", uid="1")
    return CoreEvent(involved_object=about, reason=reason, message=message, type="Warning")


def context(*claims: ResourceClaim, **settings: Any) -> PodContext:
    by_key = {item.key: item for item in claims}
    settings.setdefault("nodes", {"n1": node()})
    return PodContext(claims=by_key, **settings)


def template(namespace: str = "team", count: int = 1) -> dict[ClaimKey, ResourceClaimTemplate]:
    metadata = ObjectMeta(name="template", namespace=namespace)
    template_object = ResourceClaimTemplate(
        metadata, ResourceClaimTemplateSpec(spec=claim(request("gpu", count=count)).spec)
    )
    return {ClaimKey(namespace, "template"): template_object}


def quota(used: str, hard: str) -> ResourceQuota:
    name = "gpu.deviceclass.resource.k8s.io/devices"
    spec = ResourceQuotaSpec(hard={name: hard})
    status = ResourceQuotaStatus(hard={name: hard}, used={name: used})
    return ResourceQuota(ObjectMeta(name="devices", namespace="team"), spec, status)


def container(**state: Any) -> dict[str, Any]:
    """The status of the only container of a pod that is on its node."""
    return {"containerStatuses": [{"name": "main", **state}]}


def on_node(*events: CoreEvent, status: Any = None) -> Situation:
    placed = pod(nodeName="n1", status=status)
    return Situation(placed, context(allocated(), events=events))


@way
def running() -> Situation:
    status = container(state={"running": {}}, ready=True)
    return on_node(status={"phase": "Running", **status})


def tainted_slice(*taints: DeviceTaint, generation: int = 2) -> ResourceSlice:
    template_object = gpu_slice("n1", 1)
    device = msgspec.structs.replace(template_object.spec.devices[0], taints=taints)
    pool = msgspec.structs.replace(template_object.spec.pool, generation=generation)
    spec = msgspec.structs.replace(template_object.spec, devices=(device,), pool=pool)
    return msgspec.structs.replace(template_object, spec=spec)


def health(word: str, message: str = "") -> dict[str, Any]:
    """The status of a container whose device is like that."""
    found = {"resourceID": "gpu.example.com/claim=uid-gpu-0", "health": word, "message": message}
    return {"allocatedResourcesStatus": [{"name": "claim:gpu", "resources": [found]}]}


def with_device(status: dict[str, Any], **settings: Any) -> Situation:
    """A pod on its node, whose claim tolerates a taint for an hour."""
    brief = DeviceToleration(
        key="maintenance", operator="Exists", effect="NoExecute", toleration_seconds=3600
    )
    broken = DeviceToleration(key="broken", operator="Exists", effect="NoExecute")
    held = allocated({"tolerations": (brief, broken)})
    placed = pod(nodeName="n1", status={"phase": "Running", **status})
    return Situation(placed, context(held, **settings))


RUNS = {"state": {"running": {}}, "ready": True}
RUNNING = {"phase": "Running", **container(**RUNS)}
BROKEN = DeviceTaint(key="broken", effect="NoExecute", time_added="2026-11-15T10:00:00Z")


@way
def running_on_an_unhealthy_device() -> Situation:
    status = container(**RUNS, **health("Unhealthy", "Xid 79: fallen off the bus"))
    outdated = tainted_slice(DeviceTaint(key="old", effect="NoSchedule"), generation=1)
    return with_device(status, slices=[outdated, tainted_slice(BROKEN)])


@way
def running_until_a_taint_rule_evicts() -> Situation:
    taint = DeviceTaint("maintenance", "tonight", "NoExecute", "2026-11-15T10:00:00Z")
    concerned = DeviceTaintRuleSpec(DeviceTaintSelector(pool="n1"), taint)
    others = DeviceTaintRuleSpec(DeviceTaintSelector(pool="n2"), taint)
    rules = [
        DeviceTaintRule(ObjectMeta(name="night"), concerned),
        DeviceTaintRule(ObjectMeta(name="elsewhere"), others),
    ]
    return with_device(container(**RUNS, **health("Healthy")), taint_rules=rules)


@way
def running_where_new_pods_do_not_come() -> Situation:
    taint = DeviceTaint(key="drained", effect="NoSchedule", time_added="2026-11-15T10:00:00Z")
    noted = DeviceTaint(key="noted", effect="None")
    return with_device(container(**RUNS), slices=[tainted_slice(taint, noted)])


@way
def container_ends_on_an_unhealthy_device() -> Situation:
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status = container(state=ended, **health("Unhealthy", "Xid 79"))
    return with_device(status, slices=[tainted_slice(BROKEN)])


@way
def starting_on_a_tainted_device() -> Situation:
    return with_device({"phase": "Pending"}, slices=[tainted_slice(BROKEN)])


@way
def done() -> Situation:
    return on_node(status={"phase": "Succeeded"})


@way
def quota_used_up() -> Situation:
    surroundings = context(templates=template(count=2), quotas=[quota(used="3", hard="4")])
    return Situation(pod(claim_name=None), surroundings)


@way
def quota_for_one_device() -> Situation:
    surroundings = context(templates=template(), quotas=[quota(used="1", hard="1")])
    return Situation(pod(claim_name=None), surroundings)


@way
def quota_with_room() -> Situation:
    surroundings = context(templates=template(), quotas=[quota(used="3", hard="4")])
    return Situation(pod(claim_name=None), surroundings)


@way
def gates_set() -> Situation:
    gates = [{"name": "example.com/quota"}, {"name": "example.com/review"}]
    return Situation(pod(schedulingGates=gates), context(waiting_claim()))


@way
def claim_missing() -> Situation:
    return Situation(pod(), context())


@way
def claim_in_another_namespace() -> Situation:
    return Situation(
        pod(), context(waiting_claim(namespace="default"), waiting_claim(namespace="prod"))
    )


@way
def template_missing() -> Situation:
    return Situation(pod(claim_name=None), context(templates=template("default")))


@way
def claim_misspelt() -> Situation:
    return Situation(
        pod(claim_name="one-gpus"), context(waiting_claim("one-gpu"), waiting_claim("none", "prod"))
    )


@way
def template_misspelt() -> Situation:
    waiting = pod(claim_name=None, template_name="tempalte")
    return Situation(waiting, context(templates=template()))


@way
def claim_not_made() -> Situation:
    event = warning("FailedResourceClaimCreation", "PodResourceClaim gpu: no more claims today")
    return Situation(pod(claim_name=None), context(templates=template(), events=[event]))


@way
def claim_being_deleted() -> Situation:
    going = ObjectMeta(name="one", namespace="team", deletion_timestamp="2026-11-15T10:00:00Z")
    return Situation(pod(), context(msgspec.structs.replace(waiting_claim(), metadata=going)))


@way
def no_devices() -> Situation:
    wanted = waiting_claim(count=4)
    explanation = claim_explanation.explain(
        cluster_inventory(gpu_slice("n1", 2)), [wanted], new_share_id=lambda: "s"
    )
    refusal = refused("0/1 nodes are available: 1 cannot allocate all claims.")
    return Situation(pod(status=refusal), context(wanted), explanation)


@way
def scheduler_unknown() -> Situation:
    return Situation(pod(schedulerName="gang-scheduler"), context(allocated()))


@way
def node_full() -> Situation:
    return Situation(
        pod(status=refused("0/1 nodes are available: 1 Insufficient cpu.")), context(allocated())
    )


@way
def devices_where_the_pod_may_not_go() -> Situation:
    nodes = {"n1": node(zone="a"), "n2": node("n2", zone="b")}
    status = refused("0/2 nodes are available: 1 node(s) didn't match Pod's node selector.")
    return Situation(
        pod(nodeSelector={"zone": "b"}, status=status), context(allocated(), nodes=nodes)
    )


@way
def binding_condition_awaited() -> Situation:
    conditions = {"binding_conditions": ("attached", "powered")}
    reported = AllocatedDeviceStatus(
        DRIVER, "n1", "gpu-0", conditions=(Condition("powered", "True"),)
    )
    return Situation(pod(), context(allocated(conditions, devices=(reported,))))


@way
def binding_condition_failed() -> Situation:
    conditions = {"binding_conditions": ("attached",), "binding_failure_conditions": ("broken",)}
    failure = Condition("broken", "True", message="the cable is loose")
    reported = AllocatedDeviceStatus(DRIVER, "n1", "gpu-0", conditions=(failure,))
    return Situation(pod(), context(allocated(conditions, devices=(reported,))))


def not_attached(message: str) -> dict[str, Any]:
    """What the scheduler says after it has taken the devices back."""
    return refused(f'running PreBind plugin "DynamicResources": {message}')


BROKEN_CABLE = 'device binding failed: claim=one, reason=NoLink, message="the cable is out"'


@way
def binding_failed_a_moment_ago() -> Situation:
    return Situation(pod(status=not_attached(BROKEN_CABLE)), context(waiting_claim()))


@way
def binding_took_too_long() -> Situation:
    status = not_attached("device binding timeout: claim=one")
    return Situation(pod(status=status), context(waiting_claim()))


@way
def binding_tried_again_after_a_failure() -> Situation:
    waiting = allocated({"binding_conditions": ("attached",)})
    return Situation(pod(status=not_attached(BROKEN_CABLE)), context(waiting))


@way
def node_gone() -> Situation:
    return Situation(pod(nodeName="n1"), context(allocated(), nodes={}))


@way
def node_not_ready() -> Situation:
    lost = {"n1": node(ready="Unknown", message="Kubelet stopped posting node status.")}
    return Situation(pod(nodeName="n1"), context(allocated(), nodes=lost))


def unregistered(*slices: ResourceSlice) -> Situation:
    message = f"prepare dynamic resources: DRA driver {DRIVER} is not registered"
    event = warning("FailedPrepareDynamicResources", message)
    return Situation(pod(nodeName="n1"), context(allocated(), events=[event], slices=slices))


@way
def driver_not_registered() -> Situation:
    return unregistered()


@way
def driver_crashed() -> Situation:
    return unregistered(gpu_slice("n2", 1), gpu_slice("n1", 1))


@way
def driver_runs_elsewhere_only() -> Situation:
    return unregistered(gpu_slice("n2", 1))


@way
def prepare_failed() -> Situation:
    message = (
        "prepare dynamic resources: NodePrepareResources failed for claim one: the GPU is lost"
    )
    return on_node(warning("FailedPrepareDynamicResources", message))


@way
def prepared_after_a_failure() -> Situation:
    status = container(state={"running": {}}, ready=True)
    failure = warning("FailedPrepareDynamicResources", "try again")
    return on_node(failure, status={"phase": "Running", **status})


@way
def cdi_device_unresolved() -> Situation:
    message = "CDI device injection failed: unresolvable CDI devices example.com/gpu=gpu-0"
    waiting = {"reason": "CreateContainerError", "message": message}
    return on_node(status=container(state={"waiting": waiting}))


@way
def cdi_device_unresolved_by_event() -> Situation:
    message = "Error: CDI device injection failed: unresolvable CDI devices example.com/gpu=gpu-0"
    waiting = {"reason": "ContainerCreating"}
    return on_node(warning("Failed", message), status=container(state={"waiting": waiting}))


@way
def image_missing() -> Situation:
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nosuch"'}
    return on_node(status=container(state={"waiting": waiting}))


@way
def volume_missing() -> Situation:
    event = warning("FailedMount", 'MountVolume.SetUp failed: configmap "settings" not found')
    return on_node(event, status=container(state={"waiting": {"reason": "ContainerCreating"}}))


@way
def container_keeps_ending() -> Situation:
    status = container(
        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        lastState={"terminated": {"exitCode": 127, "reason": "Error"}},
        restartCount=3,
    )
    return on_node(status={"phase": "Running", **status})


@way
def container_out_of_memory() -> Situation:
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    return on_node(status={"phase": "Failed", **container(state={"terminated": ended})})


@way
def container_not_ready() -> Situation:
    status = container(state={"running": {}}, ready=False)
    return on_node(status={"phase": "Running", **status})


@way
def evicted_for_a_device_taint() -> Situation:
    ended = {"reason": "DeletionByDeviceTaintManager", "message": "device gpu-0 is tainted"}
    return on_node(status={"phase": "Failed", **ended})


@way
def nothing_may_be_read() -> Situation:
    unread = frozenset({"ResourceQuota", "ResourceClaim", "Node", "Event"})
    explanation = claim_explanation.explain(
        cluster_inventory(gpu_slice("n1", 2)), [waiting_claim()], new_share_id=lambda: "s"
    )
    return Situation(pod(), PodContext(unread=unread), explanation)


@way
def claims_of_others_may_not_be_read() -> Situation:
    explanation = claim_explanation.explain(
        cluster_inventory(gpu_slice("n1", 2)), [waiting_claim()], new_share_id=lambda: "s"
    )
    surroundings = context(waiting_claim(), partly_read=frozenset({"ResourceClaim"}))
    return Situation(pod(), surroundings, explanation)


@way
def rule_without_a_selector_evicts_nobody() -> Situation:
    rule = DeviceTaintRule(
        ObjectMeta(name="everything"), DeviceTaintRuleSpec(None, DeviceTaint("x", "", "NoExecute"))
    )
    return with_device(container(**RUNS), taint_rules=[rule], slices=[gpu_slice("n1", 1)])


@way
def claim_is_a_template() -> Situation:
    return Situation(pod(claim_name="template"), context(templates=template()))


@way
def template_is_a_claim() -> Situation:
    return Situation(pod(claim_name=None, template_name="one"), context(waiting_claim()))


@way
def claim_without_a_container() -> Situation:
    unused = pod(containers=[{"name": "main", "image": "pause"}], nodeName="n1", status=RUNNING)
    return Situation(unused, context(allocated()))


@way
def request_unknown() -> Situation:
    claims = [{"name": "gpu", "request": "gpus"}]
    main = {"name": "main", "image": "pause", "resources": {"claims": claims}}
    return Situation(pod(containers=[main], nodeName="n1", status=RUNNING), context(allocated()))


@way
def group_without_its_gate() -> Situation:
    grouped = pod(claim_name=None, schedulingGroup={"podGroupName": "workers"})
    return Situation(grouped, context(templates=template()))


def deleted(*events: CoreEvent, status: Mapping[str, Any] = RUNNING, **metadata: Any) -> Situation:
    placed = pod(nodeName="n1", status=status)
    times = {"deletion_timestamp": "2026-11-15T10:00:00Z", **metadata}
    marked = msgspec.structs.replace(placed.metadata, **times)
    return Situation(
        msgspec.structs.replace(placed, metadata=marked), context(allocated(), events=events)
    )


@way
def deleted_while_the_driver_is_gone() -> Situation:
    message = f"unprepare dynamic resources: DRA driver {DRIVER} is not registered"
    return deleted(warning("FailedUnprepareDynamicResources", message))


@way
def deleted_while_the_driver_fails() -> Situation:
    return deleted(warning("FailedUnprepareDynamicResources", "the GPU is busy"))


@way
def deleted_with_a_finalizer() -> Situation:
    return deleted(finalizers=("example.com/backup",))


@way
def deleted_for_a_device_taint() -> Situation:
    reason = "Device Taint manager: deleting due to NoExecute taint"
    disrupted = {"type": "DisruptionTarget", "status": "True", "message": reason}
    return deleted(status={**RUNNING, "conditions": [disrupted]})


@way
def deleted_after_a_disruption_that_did_not_happen() -> Situation:
    spared = {"type": "DisruptionTarget", "status": "False", "message": "not any more"}
    return deleted(status={**RUNNING, "conditions": [spared]})


@way
def deleted_a_moment_ago() -> Situation:
    return deleted()
