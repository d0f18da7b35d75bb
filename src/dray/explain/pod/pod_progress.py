"""The whole way of a pod: quota, gates, objects, devices, node, binding, driver, containers.

Each stage looks only at what the API says: the objects, their conditions and the events about the
pod. The first stage with an obstacle is where the pod is; stages that could not be looked at for
want of rights say so.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from dray.api.formats import quantity
from dray.api.ids import ClaimKey, DeviceId
from dray.api.selectors import node_selectors
from dray.api.semantics import pod_claims, quota
from dray.api.semantics.conditions import find_condition
from dray.api.semantics.pod_resources import Amounts
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.dra import (
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.meta import Condition, ObjectMeta
from dray.api.types.nodes import Node
from dray.api.types.pods import ContainerStatus, Pod, PodCondition, PodResourceClaim
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import device_problems, message_patterns, obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.selectors import spelling

PREPARE_FAILED = "FailedPrepareDynamicResources"
CLAIM_FAILED = "FailedResourceClaimCreation"
CDI = "CDI"
ELSEWHERE = " of other namespaces"
"""Behind a kind of which only the pod's own namespace could be read."""
_JUST_STARTING = frozenset({"ContainerCreating", "PodInitializing", ""})
_START_FAILURES = frozenset({"FailedMount", "FailedCreatePodSandBox", "Failed", "FailedStart"})


class PodStage(enum.StrEnum):
    QUOTA = "quota"
    GATES = "gates"
    OBJECTS = "objects"
    DEVICES = "devices"
    BINDING = "binding"
    NODE = "node"
    DRIVER = "driver"
    CONTAINERS = "containers"


class StageState(enum.StrEnum):
    PASSED = "passed"
    WARNING = "warning"
    """Passed, but something is wrong with a device that the pod has."""
    BLOCKED = "blocked"
    """The pod waits for this stage."""
    UNKNOWN = "unknown"
    """What it depends on could not be read."""
    PENDING = "pending"
    """An earlier stage is not passed yet."""


class StageStatus(msgspec.Struct, frozen=True):
    stage: PodStage
    state: StageState
    obstacles: tuple[Obstacle, ...] = ()
    unread: tuple[str, ...] = ()
    """Kinds that this stage depends on and that could not be read."""


class PodProgress(msgspec.Struct, frozen=True):
    """How far a pod has come."""

    pod: str
    steps: tuple[StageStatus, ...]
    phase: str = ""

    @property
    def blocked(self) -> StageStatus | None:
        return next((step for step in self.steps if step.state is StageState.BLOCKED), None)

    @property
    def warnings(self) -> tuple[Obstacle, ...]:
        """What is wrong with what the pod has, though it goes on."""
        with_warning = (step for step in self.steps if step.state is StageState.WARNING)
        return tuple(obstacle for step in with_warning for obstacle in step.obstacles)

    @property
    def findings(self) -> tuple[Obstacle, ...]:
        """What the pod waits for, and then the doubts."""
        return (*(self.blocked.obstacles if self.blocked else ()), *self.warnings)

    @property
    def is_at_its_end(self) -> bool:
        return all(step.state in (StageState.PASSED, StageState.WARNING) for step in self.steps)

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(kind for step in self.steps for kind in step.unread))


class PodContext(msgspec.Struct, frozen=True):
    """What a pod meets. `unread` are kinds of which nothing could be read."""

    claims: Mapping[ClaimKey, ResourceClaim] = {}
    templates: Mapping[ClaimKey, ResourceClaimTemplate] = {}
    classes: Sequence[DeviceClass] = ()
    nodes: Mapping[str, Node] = {}
    quotas: Sequence[ResourceQuota] = ()
    slices: Sequence[ResourceSlice] = ()
    taint_rules: Sequence[DeviceTaintRule] = ()
    events: Sequence[CoreEvent] = ()
    """Those about the pod, the oldest first."""
    unread: frozenset[str] = frozenset()
    partly_read: frozenset[str] = frozenset()
    """Kinds of which only the pod's own namespace could be read."""


def inspect_pod(
    pod: Pod, around: PodContext, explanation: Explanation | None = None
) -> PodProgress:
    """How far a pod has come; `explanation` is that of its claims, if it has any."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if pod.status.phase == "Succeeded":
        steps = tuple(StageStatus(stage, StageState.PASSED) for stage in PodStage)
        return PodProgress(name, steps, pod.status.phase)
    steps_taken: list[StageStatus] = []
    for step in _PodInspection(pod, around, explanation).steps():
        is_past = any(
            each.state in (StageState.BLOCKED, StageState.PENDING) for each in steps_taken
        )
        steps_taken.append(StageStatus(step.stage, StageState.PENDING) if is_past else step)
    return PodProgress(name, tuple(steps_taken), pod.status.phase)


class _PodInspection:
    """Looks at one stage after the other."""

    def __init__(self, pod: Pod, around: PodContext, explanation: Explanation | None) -> None:
        self._pod, self._around, self._explanation = pod, around, explanation
        self._namespace = pod.metadata.namespace
        self._is_bound = bool(pod.spec.node_name)
        self._is_written = bool(pod.metadata.uid)

    def steps(self) -> Iterator[StageStatus]:
        """One stage after the other, each looked at when it is asked for."""
        around = self._around
        unknown_devices = {"ResourceSlice", "DeviceClass", "Node"} & around.unread
        unknown_devices |= {"ResourceClaim"} & around.unread
        unknown_devices |= {f"{kind}{ELSEWHERE}" for kind in {"ResourceClaim"} & around.partly_read}
        if self._is_bound:
            for stage in (PodStage.QUOTA, PodStage.GATES, PodStage.OBJECTS):
                yield StageStatus(stage, StageState.PASSED)
            doubts = tuple(self._doubts())
            yield StageStatus(
                PodStage.DEVICES, StageState.WARNING if doubts else StageState.PASSED, doubts
            )
        else:
            yield self._step(PodStage.QUOTA, self._quota(), around.unread & {"ResourceQuota"})
            yield self._step(PodStage.GATES, self._gates())
            yield self._step(PodStage.OBJECTS, self._objects(), around.unread & {"ResourceClaim"})
            needed = unknown_devices if self._pod.spec.resource_claims else ()
            yield self._step(PodStage.DEVICES, self._devices(), needed)
        yield self._step(PodStage.BINDING, self._binding())
        yield self._step(PodStage.NODE, self._node(), around.unread & {"Node"})
        yield self._step(PodStage.DRIVER, self._driver(), around.unread & {"Event"})
        yield self._step(PodStage.CONTAINERS, self._containers())

    def _step(
        self, stage: PodStage, found: Iterator[Obstacle], unread: Collection[str] = ()
    ) -> StageStatus:
        seen = tuple(found)
        if seen:
            return StageStatus(stage, StageState.BLOCKED, seen, tuple(sorted(unread)))
        if unread:
            return StageStatus(stage, StageState.UNKNOWN, (), tuple(sorted(unread)))
        return StageStatus(
            stage, StageState.PASSED if self._is_behind(stage) else StageState.PENDING
        )

    def _is_behind(self, stage: PodStage) -> bool:
        """Whether the pod has passed a stage that has no obstacle."""
        if stage is PodStage.CONTAINERS:
            return self._is_running()
        return self._is_bound or stage not in (PodStage.NODE, PodStage.DRIVER)

    def _quota(self) -> Iterator[Obstacle]:
        """What is still to be created must fit into what is left."""
        extended = {
            device_class.metadata.name: device_class.spec.extended_resource_name
            for device_class in self._around.classes
            if device_class.spec.extended_resource_name
        }
        charges = [
            quota.claim_charges(claim, extended)
            for source in self._pod.spec.resource_claims
            if (claim := self._unmade(source)) is not None
        ]
        for each in self._around.quotas:
            if each.metadata.namespace == self._namespace:
                for charge in charges:
                    yield from _exceeded(each, charge)

    def _unmade(self, source: PodResourceClaim) -> ResourceClaim | None:
        """The claim that a template would make, where it is not made yet."""
        if pod_claims.claim_of(self._pod, source).is_made:
            return None
        name = source.resource_claim_template_name or ""
        template = self._around.templates.get(ClaimKey(self._namespace, name))
        if template is None:
            return None
        return ResourceClaim(ObjectMeta(namespace=self._namespace), template.spec.spec)

    def _gates(self) -> Iterator[Obstacle]:
        for gate in self._pod.spec.scheduling_gates:
            yield obstacles.GateSet(gate=gate.name)

    def _objects(self) -> Iterator[Obstacle]:
        for source in self._pod.spec.resource_claims:
            noted = pod_claims.claim_of(self._pod, source)
            if noted.name:
                yield from self._claim_there(noted.name)
            elif not noted.is_made:
                yield from self._template_there(source)

    def _claim_there(self, name: str) -> Iterator[Obstacle]:
        claim = self._around.claims.get(ClaimKey(self._namespace, name))
        if claim is None and "ResourceClaim" not in self._around.unread:
            yield self._missing("ResourceClaim", name, self._around.claims)
        elif claim is not None and claim.metadata.deletion_timestamp is not None:
            yield obstacles.ClaimBeingDeleted(claim=name)

    def _template_there(self, source: PodResourceClaim) -> Iterator[Obstacle]:
        name = source.resource_claim_template_name or ""
        templates = self._around.templates
        is_there = ClaimKey(self._namespace, name) in templates
        if not is_there and "ResourceClaimTemplate" not in self._around.unread:
            yield self._missing("ResourceClaimTemplate", name, templates)
        elif self._is_written:
            message = self._last_said(CLAIM_FAILED)
            yield obstacles.ClaimNotMade(pod_claim=source.name, message=message)

    def _missing(
        self, kind: str, name: str, among: Mapping[ClaimKey, object]
    ) -> obstacles.ObjectMissing:
        elsewhere = tuple(sorted(key.namespace for key in among if key.name == name))
        here = [key.name for key in among if key.namespace == self._namespace]
        return obstacles.ObjectMissing(
            kind=kind,
            name=name,
            namespace=self._namespace,
            elsewhere=elsewhere,
            similar=next(iter(spelling.similar(name, here)), ""),
        )

    def _devices(self) -> Iterator[Obstacle]:
        refused = (Outcome.REFUSED, Outcome.FAILED, Outcome.UNDECIDED)
        if self._explanation is not None and self._explanation.outcome in refused:
            yield obstacles.ClaimsDoNotFit()

    def _doubts(self) -> Iterator[Obstacle]:
        around = self._around
        return device_problems.device_problems(
            self._pod, around.claims, around.slices, around.taint_rules
        )

    def _binding(self) -> Iterator[Obstacle]:
        if self._is_bound:
            return
        found = [each for claim in self._claims() for each in _unready(claim)]
        yield from found
        if not any(isinstance(each, obstacles.ConditionFailed) for each in found):
            yield from self._failed_binding()

    def _failed_binding(self) -> Iterator[Obstacle]:
        """The last attempt; after it the claim has neither its devices nor their conditions."""
        scheduled = self._scheduled()
        failed = message_patterns.failed_binding(scheduled.message) if scheduled else None
        if failed is not None:
            yield obstacles.BindingFailed(claim=failed.claim, message=failed.why)

    def _node(self) -> Iterator[Obstacle]:
        if self._is_bound:
            yield from self._node_is_well(self._pod.spec.node_name)
            return
        if not self._is_written:
            return
        yield from self._out_of_reach()
        scheduled = self._scheduled()
        if scheduled is None:
            scheduler = self._pod.spec.scheduler_name or "default-scheduler"
            yield obstacles.NotLookedAt(scheduler=scheduler)
        elif scheduled.status == "False":
            yield obstacles.NodeRefused(message=scheduled.message or scheduled.reason)

    def _node_is_well(self, name: str) -> Iterator[Obstacle]:
        if self._is_running() or "Node" in self._around.unread:
            return
        node = self._around.nodes.get(name)
        if node is None:
            yield obstacles.NodeGone(node=name)
            return
        ready = find_condition(node.status.conditions, "Ready")
        if ready is not None and ready.status != "True":
            yield obstacles.NodeNotReady(node=name, message=ready.message or ready.reason)

    def _out_of_reach(self) -> Iterator[Obstacle]:
        """Claims whose devices are on nodes that the pod's own node selector leaves out."""
        wanted = self._pod.spec.node_selector
        for claim in self._claims() if wanted else ():
            allocation = claim.status.allocation
            if allocation is None or allocation.node_selector is None:
                continue
            reaches = node_selectors.compile_node_selector(allocation.node_selector)
            there = [
                node
                for node in self._around.nodes.values()
                if reaches(node.metadata.labels, node.metadata.name)
            ]
            if there and not any(wanted.items() <= node.metadata.labels.items() for node in there):
                names = tuple(sorted(node.metadata.name for node in there))
                yield obstacles.NodeOutOfReach(claim=claim.metadata.name, nodes=names)

    def _driver(self) -> Iterator[Obstacle]:
        message = self._last_said(PREPARE_FAILED)
        if not message or not self._is_bound or self._has_started():
            return
        node = self._pod.spec.node_name
        drivers = {result.driver for claim in self._claims() for result in _results(claim)}
        absent = [
            driver
            for driver in sorted(drivers)
            if message_patterns.is_unregistered(driver, message)
        ]
        for driver in absent:
            was_there = self._has_published(driver, node)
            yield obstacles.DriverNotRegistered(
                driver=driver, node=node, message=message, was_there=was_there
            )
        if not absent:
            yield obstacles.PrepareFailed(node=node, message=message)

    def _has_published(self, driver: str, node: str) -> bool:
        published = (resource_slice.spec for resource_slice in self._around.slices)
        return any((each.driver, each.node_name) == (driver, node) for each in published)

    def _containers(self) -> Iterator[Obstacle]:
        status = self._pod.status
        if status.phase == "Failed" and status.reason:
            yield obstacles.PodEnded(reason=status.reason, message=status.message)
            return
        statuses = [*status.init_container_statuses, *status.container_statuses]
        found = [each for one in statuses for each in self._container(one)]
        yield from found
        if not found and self._is_bound and not self._has_started():
            yield from self._start_failures()

    def _container(self, status: ContainerStatus) -> Iterator[Obstacle]:
        waiting, ended = status.state.waiting, status.state.terminated
        last = ended or status.last_state.terminated
        if status.state.running is not None:
            if not status.ready and not self._is_init(status):
                yield obstacles.NotReady(container=status.name)
        elif waiting is not None and CDI in waiting.message:
            node = self._pod.spec.node_name
            yield obstacles.CdiUnresolved(container=status.name, node=node, message=waiting.message)
        elif last is not None and last.exit_code:
            yield obstacles.ContainerExited(
                pod=self._pod.metadata.name,
                namespace=self._namespace,
                container=status.name,
                code=last.exit_code,
                reason=last.reason,
                restarts=status.restart_count,
                message=last.message,
            )
        elif waiting is not None and waiting.reason not in _JUST_STARTING:
            yield obstacles.StartFailed(
                container=status.name, reason=waiting.reason, message=waiting.message
            )

    def _is_init(self, status: ContainerStatus) -> bool:
        return status in self._pod.status.init_container_statuses

    def _start_failures(self) -> Iterator[Obstacle]:
        """What the node had to say last, where no container's status says it."""
        said = [event for event in self._around.events if event.reason in _START_FAILURES]
        if not said:
            return
        last = said[-1]
        if CDI in last.message:
            node = self._pod.spec.node_name
            yield obstacles.CdiUnresolved(container="", node=node, message=last.message)
        else:
            yield obstacles.StartFailed(container="", reason=last.reason, message=last.message)

    def _claims(self) -> list[ResourceClaim]:
        keys = pod_claims.used_claims(self._pod)
        found = (self._around.claims.get(key) for key in keys)
        return [claim for claim in found if claim is not None]

    def _scheduled(self) -> PodCondition | None:
        return find_condition(self._pod.status.conditions, "PodScheduled")

    def _last_said(self, reason: str) -> str:
        said = [event.message for event in self._around.events if event.reason == reason]
        return said[-1] if said else ""

    def _is_running(self) -> bool:
        return self._pod.status.phase == "Running"

    def _has_started(self) -> bool:
        """Whether any container ever ran, for which claims had to be prepared."""
        status = self._pod.status
        every = (*status.init_container_statuses, *status.container_statuses)
        states = [state for each in every for state in (each.state, each.last_state)]
        return any(each.running or each.terminated for each in states)


def _exceeded(limit: ResourceQuota, charge: Amounts) -> Iterator[Obstacle]:
    hard, used = limit.status.hard or limit.spec.hard, limit.status.used
    for name, amount in sorted(charge.items()):
        if name not in hard:
            continue
        have = quantity.parse(used.get(name, "0"))
        if have + amount > quantity.parse(hard[name]):
            yield obstacles.QuotaExceeded(
                quota=limit.metadata.name,
                resource=name,
                needed=str(amount),
                used=str(have),
                hard=hard[name],
            )


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation else ()


def _unready(claim: ResourceClaim) -> Iterator[Obstacle]:
    """The devices of a claim that their drivers have not attached."""
    reported = {each.device_id: each.conditions for each in claim.status.devices}
    for result in _results(claim):
        device = result.device_id
        yield from _unattached(claim, result, device, reported.get(device, ()))


def _unattached(
    claim: ResourceClaim,
    result: DeviceRequestAllocationResult,
    device: DeviceId,
    conditions: Sequence[Condition],
) -> Iterator[Obstacle]:
    """What the driver of a device has still to do, or could not do."""
    true = {condition.type: condition for condition in conditions if condition.status == "True"}
    about = {"claim": claim.metadata.name, "device": str(device), "driver": result.driver}
    for name in result.binding_failure_conditions:
        if name in true:
            message = true[name].message or true[name].reason
            yield obstacles.ConditionFailed(condition=name, message=message, **about)
            return
    awaited = tuple(name for name in result.binding_conditions if name not in true)
    if awaited:
        yield obstacles.ConditionAwaited(conditions=awaited, **about)
