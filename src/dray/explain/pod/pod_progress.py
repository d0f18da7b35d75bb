"""Progress of a pod: quota, gates, objects, devices, binding, node, driver, containers.

A stage is evaluated from the API alone: objects, their conditions, and the events of the pod. The
pod is blocked at the first stage with an obstacle. A stage that depends on kinds the user may not
read is unknown.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api.formats import quantity
from dray.api.ids import ClaimKey, DeviceId
from dray.api.selectors import node_selectors
from dray.api.semantics import pod_claims, quota
from dray.api.semantics.conditions import find_condition
from dray.api.semantics.pod_resources import Amounts
from dray.api.types import dra
from dray.api.types.core import ResourceQuota
from dray.api.types.dra import ResourceClaim
from dray.api.types.meta import Condition, ObjectMeta
from dray.api.types.pods import ContainerStatus, Pod, PodCondition, PodResourceClaim
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import claim_uses, device_problems, message_patterns, obstacles, queue_wait
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_changes import CLAIM, TEMPLATE
from dray.explain.pod.pod_context import OTHER_NAMESPACES, PodContext, claims_of
from dray.explain.selectors import spelling
from dray.explain.text import explanation_text

PREPARE_FAILED = "FailedPrepareDynamicResources"
UNPREPARE_FAILED = "FailedUnprepareDynamicResources"
WORKLOAD_GATE = "GenericWorkload"
CLAIM_FAILED = "FailedResourceClaimCreation"
CDI = "CDI"
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
    """The kinds that the stage depends on could not be read."""
    PENDING = "pending"
    """An earlier stage is not passed yet."""


class StageStatus(msgspec.Struct, frozen=True):
    """The state of one stage, with its obstacles."""

    stage: PodStage
    state: StageState
    obstacles: tuple[Obstacle, ...] = ()
    unread: tuple[str, ...] = ()
    """Kinds that this stage depends on and that could not be read."""


class PodProgress(msgspec.Struct, frozen=True):
    """The stages that a pod has passed, and the one that it is in."""

    pod: str
    steps: tuple[StageStatus, ...]
    phase: str = ""

    @property
    def blocked(self) -> StageStatus | None:
        """Return the stage at which the pod is blocked, or None."""
        return next((step for step in self.steps if step.state is StageState.BLOCKED), None)

    @property
    def warnings(self) -> tuple[Obstacle, ...]:
        """Return the problems of devices that the pod has."""
        with_warning = (step for step in self.steps if step.state is StageState.WARNING)
        return tuple(obstacle for step in with_warning for obstacle in step.obstacles)

    @property
    def findings(self) -> tuple[Obstacle, ...]:
        """Return the obstacles of the blocked stage, then the warnings."""
        return (*(self.blocked.obstacles if self.blocked else ()), *self.warnings)

    @property
    def is_complete(self) -> bool:
        return all(step.state in (StageState.PASSED, StageState.WARNING) for step in self.steps)

    @property
    def is_bound(self) -> bool:
        """Return whether the pod has a node that it can run on."""
        states = {step.stage: step.state for step in self.steps}
        return states.get(PodStage.NODE) is StageState.PASSED

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(kind for step in self.steps for kind in step.unread))


class ExcludedNodes(NamedTuple):
    """Reasons why nodes are excluded on which a pod could run otherwise."""

    obstacles: tuple[Obstacle, ...] = ()
    are_all: bool = False
    """Whether no node is left."""


NO_EXCLUSIONS = ExcludedNodes()


def inspect_pod(
    pod: Pod,
    context: PodContext,
    explanation: Explanation | None = None,
    excluded: ExcludedNodes = NO_EXCLUSIONS,
) -> PodProgress:
    """Return how far a pod has come.

    `explanation` is that of its claims, if it has any; `excluded` is why nodes are excluded on
    which it could run otherwise.
    """
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if pod.status.phase == "Succeeded":
        steps = tuple(StageStatus(stage, StageState.PASSED) for stage in PodStage)
        return PodProgress(name, steps, pod.status.phase)
    statuses: list[StageStatus] = []
    for step in _PodInspection(pod, context, explanation, excluded).steps():
        waiting = (StageState.BLOCKED, StageState.PENDING)
        is_past = any(status.state in waiting for status in statuses)
        statuses.append(StageStatus(step.stage, StageState.PENDING) if is_past else step)
    return PodProgress(name, tuple(statuses), pod.status.phase)


class _PodInspection:
    """Evaluates the stages of one pod, one after the other."""

    def __init__(
        self,
        pod: Pod,
        context: PodContext,
        explanation: Explanation | None,
        excluded: ExcludedNodes,
    ) -> None:
        self._pod, self._context, self._explanation = pod, context, explanation
        self._excluded = excluded
        self._namespace = pod.metadata.namespace
        self._is_bound = bool(pod.spec.node_name)
        self._is_written = bool(pod.metadata.uid)

    def steps(self) -> Iterator[StageStatus]:
        """Yield the status of each stage."""
        context = self._context
        unknown_devices = {"ResourceSlice", "DeviceClass", "Node"} & context.unread
        unknown_devices |= {"ResourceClaim"} & context.unread
        if "ResourceClaim" in context.partly_read:
            unknown_devices |= {f"ResourceClaim{OTHER_NAMESPACES}"}
        if self._is_bound:
            for stage in (PodStage.QUOTA, PodStage.GATES):
                yield StageStatus(stage, StageState.PASSED)
            yield _with_warnings(PodStage.OBJECTS, claim_uses.problems(self._pod, self._requests()))
            bypassed = tuple(self._bypassed())
            yield (
                StageStatus(PodStage.DEVICES, StageState.BLOCKED, bypassed)
                if bypassed
                else _with_warnings(PodStage.DEVICES, self._warnings())
            )
        else:
            yield self._step(PodStage.QUOTA, self._quota(), context.unread & {"ResourceQuota"})
            yield self._step(PodStage.GATES, self._gates())
            objects = self._step(
                PodStage.OBJECTS, self._objects(), context.unread & {"ResourceClaim"}
            )
            if objects.state is StageState.PASSED:
                objects = _with_warnings(
                    PodStage.OBJECTS, claim_uses.problems(self._pod, self._requests())
                )
            yield objects
            needed = unknown_devices if self._pod.spec.resource_claims else ()
            yield self._step(PodStage.DEVICES, self._devices(), needed)
        yield self._step(PodStage.BINDING, self._binding())
        yield self._step(PodStage.NODE, self._node(), context.unread & {"Node"})
        yield self._step(PodStage.DRIVER, self._driver(), context.unread & {"Event"})
        yield self._step(PodStage.CONTAINERS, self._containers())

    def _step(
        self, stage: PodStage, expected: Iterator[Obstacle], unread: Collection[str] = ()
    ) -> StageStatus:
        in_the_stage = tuple(expected)
        if in_the_stage:
            return StageStatus(stage, StageState.BLOCKED, in_the_stage, tuple(sorted(unread)))
        if unread:
            return StageStatus(stage, StageState.UNKNOWN, (), tuple(sorted(unread)))
        has_passed = self._has_passed(stage)
        return StageStatus(stage, StageState.PASSED if has_passed else StageState.PENDING)

    def _has_passed(self, stage: PodStage) -> bool:
        """Return whether the pod has passed a stage without obstacles."""
        if stage is PodStage.CONTAINERS:
            return self._is_running()
        return self._is_bound or stage not in (PodStage.NODE, PodStage.DRIVER)

    def _quota(self) -> Iterator[Obstacle]:
        """Yield the quotas that the claims still to be created would exceed."""
        extended = {
            device_class.metadata.name: device_class.spec.extended_resource_name
            for device_class in self._context.classes
            if device_class.spec.extended_resource_name
        }
        charges = [
            quota.claim_charges(claim, extended)
            for source in self._pod.spec.resource_claims
            if (claim := self._missing_claim(source)) is not None
        ]
        for resource_quota in self._context.quotas:
            if resource_quota.metadata.namespace == self._namespace:
                for charge in charges:
                    yield from _exceeded(resource_quota, charge)

    def _missing_claim(self, source: PodResourceClaim) -> ResourceClaim | None:
        """Return the claim that a template will create, or None if it exists already."""
        if pod_claims.claim_of(self._pod, source).is_made:
            return None
        name = source.resource_claim_template_name or ""
        template = self._context.templates.get(ClaimKey(self._namespace, name))
        if template is None:
            return None
        return ResourceClaim(ObjectMeta(namespace=self._namespace), template.spec.spec)

    def _gates(self) -> Iterator[Obstacle]:
        for gate in self._pod.spec.scheduling_gates:
            yield obstacles.GateSet(gate=gate.name)

    def _objects(self) -> Iterator[Obstacle]:
        for source in self._pod.spec.resource_claims:
            reference = pod_claims.claim_of(self._pod, source)
            if reference.name:
                yield from self._check_claim(source, reference.name)
            elif not reference.is_made:
                yield from self._check_template(source)

    def _requests(self) -> dict[str, list[str]]:
        """Return the requests of the pod's claims, by the pod's own names of them."""
        return {
            used: [request.name for request in claim.spec.devices.requests]
            for used, claim in claims_of(self._pod, self._context).items()
        }

    def _check_claim(self, source: PodResourceClaim, name: str) -> Iterator[Obstacle]:
        key = ClaimKey(self._namespace, name)
        claim = self._context.claims.get(key)
        if claim is None and key in self._context.templates:
            yield obstacles.KindConfused(
                pod_claim=source.name, name=name, named=CLAIM, actual=TEMPLATE
            )
        elif claim is None and "ResourceClaim" not in self._context.unread:
            yield self._missing(CLAIM, name, self._context.claims)
        elif claim is not None and claim.metadata.deletion_timestamp is not None:
            yield obstacles.ClaimBeingDeleted(claim=name)

    def _check_template(self, source: PodResourceClaim) -> Iterator[Obstacle]:
        name = source.resource_claim_template_name or ""
        templates = self._context.templates
        key = ClaimKey(self._namespace, name)
        if key not in templates and key in self._context.claims:
            yield obstacles.KindConfused(
                pod_claim=source.name, name=name, named=TEMPLATE, actual=CLAIM
            )
        elif key not in templates and "ResourceClaimTemplate" not in self._context.unread:
            yield self._missing(TEMPLATE, name, templates)
        elif self._is_written and (group := self._group_without_gate()):
            yield obstacles.GroupGateOff(group=group, gate=WORKLOAD_GATE)
        elif self._is_written:
            message = self._last_message(CLAIM_FAILED)
            yield obstacles.ClaimNotMade(pod_claim=source.name, message=message)

    def _group_without_gate(self) -> str:
        """Return the pod's PodGroup if no controller handles groups; else an empty string."""
        is_on = self._context.features.generic_workload
        return "" if is_on else pod_claims.group_name(self._pod)

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
            # Without any node, the devices of other nodes do not matter yet.
            if self._excluded.are_all:
                yield from self._excluded.obstacles
            yield obstacles.ClaimsDoNotFit(reason=explanation_text.cause(self._explanation))
            if not self._excluded.are_all:
                yield from queue_wait.behind_others(self._pod, self._explanation, self._context)
                yield from self._excluded.obstacles

    def _bypassed(self) -> Iterator[Obstacle]:
        """Yield the claims without devices of a pod that has a node.

        A scheduler allocates the devices before it binds the pod.
        """
        if self._has_started() or self._pod.metadata.deletion_timestamp is not None:
            return
        claims = claims_of(self._pod, self._context).values()
        names = tuple(claim.metadata.name for claim in claims if claim.status.allocation is None)
        if names:
            yield obstacles.SchedulerBypassed(node=self._pod.spec.node_name, claims=names)

    def _warnings(self) -> Iterator[Obstacle]:
        context = self._context
        return device_problems.device_problems(
            self._pod, context.claims, context.slices, context.taint_rules
        )

    def _binding(self) -> Iterator[Obstacle]:
        if self._is_bound:
            return
        unready = [obstacle for claim in self._claims() for obstacle in _unready(claim)]
        yield from unready
        if not any(isinstance(obstacle, obstacles.ConditionFailed) for obstacle in unready):
            yield from self._failed_binding()

    def _failed_binding(self) -> Iterator[Obstacle]:
        """Yield the failure of the last attempt to bind.

        After it the claim has no devices and no conditions any more, only the pod's condition.
        """
        scheduled = self._scheduled()
        failed = message_patterns.failed_binding(scheduled.message) if scheduled else None
        if failed is not None:
            yield obstacles.BindingFailed(claim=failed.claim, message=failed.why)

    def _node(self) -> Iterator[Obstacle]:
        if self._is_bound:
            yield from self._check_node(self._pod.spec.node_name)
            return
        yield from self._excluded.obstacles
        if not self._is_written or self._excluded.obstacles:
            return
        yield from self._out_of_reach()
        scheduled = self._scheduled()
        if scheduled is None:
            scheduler = self._pod.spec.scheduler_name or "default-scheduler"
            yield obstacles.NotLookedAt(scheduler=scheduler)
        elif scheduled.status == "False":
            yield obstacles.NodeRefused(message=scheduled.message or scheduled.reason)

    def _check_node(self, name: str) -> Iterator[Obstacle]:
        is_terminating = self._pod.metadata.deletion_timestamp is not None
        if (self._is_running() and not is_terminating) or "Node" in self._context.unread:
            return
        node = self._context.nodes.get(name)
        if node is None:
            yield obstacles.NodeGone(node=name)
            return
        ready = find_condition(node.status.conditions, "Ready")
        if ready is not None and ready.status != "True":
            yield obstacles.NodeNotReady(node=name, message=ready.message or ready.reason)

    def _out_of_reach(self) -> Iterator[Obstacle]:
        """Yield the claims with devices on nodes that the pod's node selector excludes."""
        node_labels = self._pod.spec.node_selector
        for claim in self._claims() if node_labels else ():
            allocation = claim.status.allocation
            if allocation is None or allocation.node_selector is None:
                continue
            reaches = node_selectors.compile_node_selector(allocation.node_selector)
            usable_nodes = [
                node
                for node in self._context.nodes.values()
                if reaches(node.metadata.labels, node.metadata.name)
            ]
            if usable_nodes and not any(
                node_labels.items() <= node.metadata.labels.items() for node in usable_nodes
            ):
                names = tuple(sorted(node.metadata.name for node in usable_nodes))
                yield obstacles.NodeOutOfReach(claim=claim.metadata.name, nodes=names)

    def _driver(self) -> Iterator[Obstacle]:
        if self._pod.metadata.deletion_timestamp is not None:
            yield from self._not_released()
            return
        message = self._last_message(PREPARE_FAILED)
        if not message or not self._is_bound or self._has_started():
            return
        node = self._pod.spec.node_name
        absent = self._absent_drivers(message)
        for driver in absent:
            was_there = self._has_published(driver, node)
            yield obstacles.DriverNotRegistered(
                driver=driver, node=node, message=message, was_there=was_there
            )
        if not absent:
            yield obstacles.PrepareFailed(node=node, message=message)

    def _absent_drivers(self, message: str) -> list[str]:
        """Return the drivers of the pod that a message of the node agent calls not registered."""
        drivers = {result.driver for claim in self._claims() for result in _results(claim)}
        is_unregistered = message_patterns.is_unregistered
        return [driver for driver in sorted(drivers) if is_unregistered(driver, message)]

    def _not_released(self) -> Iterator[Obstacle]:
        """Yield the driver that keeps a pod from being deleted."""
        message = self._last_message(UNPREPARE_FAILED)
        if message:
            absent = self._absent_drivers(message)
            yield self._terminating(message=message, driver=absent[0] if absent else "")

    def _terminating(self, **details: Any) -> Obstacle:
        disruption = ""
        found = find_condition(self._pod.status.conditions, "DisruptionTarget")
        if found is not None and found.status == "True":
            disruption = found.message or found.reason
        return obstacles.Terminating(
            disruption=disruption,
            pod=self._pod.metadata.name,
            namespace=self._namespace,
            node=self._pod.spec.node_name,
            **details,
        )

    def _has_published(self, driver: str, node: str) -> bool:
        published = (resource_slice.spec for resource_slice in self._context.slices)
        return any((spec.driver, spec.node_name) == (driver, node) for spec in published)

    def _containers(self) -> Iterator[Obstacle]:
        status = self._pod.status
        if self._pod.metadata.deletion_timestamp is not None:
            yield self._terminating(finalizers=self._pod.metadata.finalizers)
            return
        if status.phase == "Failed" and status.reason:
            yield obstacles.PodEnded(reason=status.reason, message=status.message)
            return
        statuses = [*status.init_container_statuses, *status.container_statuses]
        failed = [obstacle for container in statuses for obstacle in self._container(container)]
        yield from failed
        if not failed and self._is_bound and not self._has_started():
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
        """Yield the last start failure among the events, if no container status has one."""
        failures = [event for event in self._context.events if event.reason in _START_FAILURES]
        if not failures:
            return
        last = failures[-1]
        if CDI in last.message:
            node = self._pod.spec.node_name
            yield obstacles.CdiUnresolved(container="", node=node, message=last.message)
        else:
            yield obstacles.StartFailed(container="", reason=last.reason, message=last.message)

    def _claims(self) -> list[ResourceClaim]:
        keys = pod_claims.used_claims(self._pod)
        claims = (self._context.claims.get(key) for key in keys)
        return [claim for claim in claims if claim is not None]

    def _scheduled(self) -> PodCondition | None:
        return find_condition(self._pod.status.conditions, "PodScheduled")

    def _last_message(self, reason: str) -> str:
        messages = [event.message for event in self._context.events if event.reason == reason]
        return messages[-1] if messages else ""

    def _is_running(self) -> bool:
        return self._pod.status.phase == "Running"

    def _has_started(self) -> bool:
        """Return whether any container ever ran, which means that claims were prepared."""
        pod_status = self._pod.status
        every = (*pod_status.init_container_statuses, *pod_status.container_statuses)
        states = [state for status in every for state in (status.state, status.last_state)]
        return any(state.running or state.terminated for state in states)


def _with_warnings(stage: PodStage, warnings: Iterator[Obstacle]) -> StageStatus:
    """Return a stage that is passed, with what is wrong nevertheless."""
    found = tuple(warnings)
    return StageStatus(stage, StageState.WARNING if found else StageState.PASSED, found)


def _exceeded(limit: ResourceQuota, charge: Amounts) -> Iterator[Obstacle]:
    hard, used = limit.status.hard or limit.spec.hard, limit.status.used
    for name, amount in sorted(charge.items()):
        if name not in hard:
            continue
        have = quantity.parse(used.get(name, "0"))
        if have + amount > quantity.parse(hard[name]):
            yield obstacles.QuotaExceeded(
                quota=limit.metadata.name,
                namespace=limit.metadata.namespace,
                resource=name,
                needed=str(amount),
                used=str(have),
                hard=hard[name],
            )


def _results(claim: ResourceClaim) -> Sequence[dra.DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation else ()


def _unready(claim: ResourceClaim) -> Iterator[Obstacle]:
    """Yield the binding conditions of a claim's devices that are not met."""
    reported = {device.device_id: device.conditions for device in claim.status.devices}
    for result in _results(claim):
        device = result.device_id
        yield from _unattached(claim, result, device, reported.get(device, ()))


def _unattached(
    claim: ResourceClaim,
    result: dra.DeviceRequestAllocationResult,
    device: DeviceId,
    conditions: Sequence[Condition],
) -> Iterator[Obstacle]:
    """Yield the failed or missing binding conditions of one device."""
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
