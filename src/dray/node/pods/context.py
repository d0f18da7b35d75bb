"""Dependencies of pod workers: the node, and the state of one pod on it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dray.api import errors, kinds
from dray.api.semantics import pod_status as pod_predicates
from dray.api.types.pods import Pod
from dray.client import events
from dray.client.api_client import Client
from dray.client.events import Recorder
from dray.node.containers.container_attempts import ContainerAttempt, NetworkHelper, Starter
from dray.node.devices import claim_access
from dray.node.devices.drivers import DriverDevice, DriverError, Drivers
from dray.node.devices.health import HealthStatus
from dray.node.devices.preparation import ClaimsOfPod, Preparation
from dray.node.limits import groups
from dray.node.limits.groups import ContainerLimits
from dray.node.pods.pod_status import Containers, ObservedContainer, PodFailure
from dray.node.runtimes.interface import ContainerConfigError, Runtime
from dray.node.runtimes.pod_networks import PodNetwork
from dray.node.specs.image_stand_ins import NO_IMAGES, ImageStandIns
from dray.node.specs.volumes import PreparedVolume

T = TypeVar("T")

DEFAULT_GRACE_SECONDS: Final = 30
RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 60.0
_RETRIED: Final = (claim_access.NotUsable, ContainerConfigError, DriverError, errors.StatusError)


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """The runtime of an agent's containers; agents of one process may share it."""

    runtime: Runtime
    starter: Starter
    allows_host: bool = False
    """Whether pods may mount directories of the host."""
    allows_privileged: bool = False
    """Whether containers may be privileged; their pods have the users of the host."""
    images: ImageStandIns = NO_IMAGES
    """What a runtime without images runs for them."""
    network: PodNetwork = field(default_factory=PodNetwork)
    """What pods with a network of their own can reach."""
    pod_max_pids: int = groups.DEFAULT_POD_MAX_PIDS
    """The processes that each pod may have; zero for no limit."""


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """Dependencies of the pod workers of one node."""

    client: Client
    node: str
    address: str
    folder: Path
    """Has one folder for each pod, by uid."""
    cdi_directories: tuple[Path, ...]
    drivers: Drivers
    preparation: Preparation
    recorder: Recorder
    health_of: Callable[[DriverDevice], HealthStatus]
    now: Callable[[], datetime.datetime]
    runtime_config: RuntimeConfig
    limits: ContainerLimits

    @property
    def runtime(self) -> Runtime:
        return self.runtime_config.runtime

    async def network_helper(self) -> NetworkHelper | None:
        """Return the program that connects pods with the network of the node, or None."""
        if not self.runtime.takes_network_helper:
            return None
        return await self.runtime_config.network.helper()

    @property
    def starter(self) -> Starter:
        return self.runtime_config.starter

    def pod_folder(self, uid: str) -> Path:
        return self.folder / uid


class PodState:
    """A pod with its containers, claims and volumes. Call `notify_changed` after a change."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.containers: Containers = {
            container.name: ObservedContainer()
            for container in (*pod.spec.init_containers, *pod.spec.containers)
        }
        self.prepared_claims: ClaimsOfPod = {}
        self.volumes: dict[str, PreparedVolume] = {}
        """The folder behind each volume."""
        self.host_user_id: int | None = None
        """The user of the host that an admin chose for the pod's namespace."""
        self.is_over = pod_predicates.has_ended(pod)
        self.is_gone = False
        """Whether the API no longer has the pod; another pod may have its name."""
        self.failure: PodFailure | None = None
        self.unreported = asyncio.Event()
        """Set while there is a change that the API does not show yet."""
        self._changed = asyncio.Event()

    def notify_changed(self) -> None:
        self.unreported.set()
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition, which is evaluated again after every change."""
        while not holds():
            await self._changed.wait()


@dataclass(frozen=True)
class PodWorkerContext:
    """One pod on its node."""

    node: NodeContext
    state: PodState

    @property
    def pod(self) -> Pod:
        return self.state.pod

    @property
    def uid(self) -> str:
        return self.state.pod.metadata.uid

    @property
    def folder(self) -> Path:
        return self.node.pod_folder(self.uid)

    @property
    def grace_seconds(self) -> float:
        """The time that the pod's containers have to stop."""
        from_deletion = self.pod.metadata.deletion_grace_period_seconds
        if from_deletion is not None:
            return from_deletion
        from_spec = self.pod.spec.termination_grace_period_seconds
        return DEFAULT_GRACE_SECONDS if from_spec is None else from_spec

    @property
    def has_own_network(self) -> bool:
        """Whether the network of the pod is not the host's."""
        return self.node.runtime.has_own_network and not self.pod.spec.host_network

    def container_folder(self, container: str) -> Path:
        return self.folder / "containers" / container

    def last_attempt(self, container: str) -> ContainerAttempt | None:
        """Return the latest start of a container as the disk has it, or None before the first."""
        return self.node.starter.last_attempt(self.container_folder(container))

    def record_event(self, reason: str, note: str) -> None:
        self._record(events.NORMAL, reason, note)

    def record_warning(self, reason: str, note: str) -> None:
        """Record a warning event, in place of the last one with the same reason."""
        self._record(events.WARNING, reason, note)

    async def retry(self, work: Callable[[], Awaitable[T]], reason: str) -> T:
        """Call `work` until it succeeds, and record each failure in an event with `reason`.

        Waits twice as long after each failure, but only until a driver comes or goes.
        """
        delay = RETRY_SECONDS
        while True:
            # Taken before the work: a driver that registers meanwhile ends the wait after it.
            changed = self.node.drivers.changed
            try:
                return await work()
            except _RETRIED as error:
                self.record_warning(reason, f"{error}; next try in {delay:.1f} s")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await changed.wait()
            delay = min(delay * 2, MAX_RETRY_SECONDS)

    def _record(self, type_: str, reason: str, note: str) -> None:
        reference = events.reference(kinds.POD, self.pod.metadata)
        replace = type_ == events.WARNING
        self.node.recorder.record(reference, type_, reason, note, replace=replace)
