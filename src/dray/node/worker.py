"""One pod on its node, from its claims to its last container.

A worker that is cancelled leaves the containers running; the next one finds them on disk and goes
on. A pod that is deleted, or whose containers have all ended, gives its claims back.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from dray.api import errors, exchange, kinds
from dray.api.containers import Container
from dray.api.pods import Pod
from dray.client import events
from dray.client.events import Recorder
from dray.client.verbs import Client
from dray.driverkit import cdi
from dray.driverkit.cdi import CdiError, Edits
from dray.node import (
    claims,
    containers,
    environment,
    health,
    observation,
    preparation,
    statuses,
    volumes,
)
from dray.node.actions import Actions
from dray.node.containers import Attempt, Exit
from dray.node.drivers import Device, DriverError
from dray.node.health import Health
from dray.node.observation import Observed
from dray.node.preparation import ClaimsOfPod, Preparation
from dray.node.probes import Prober
from dray.node.runtimes import sandbox
from dray.node.runtimes.sandbox import Bind, ContainerSpec
from dray.node.sources import ConfigError
from dray.node.volumes import Volumes

log = logging.getLogger(__name__)

T = TypeVar("T")
Env = dict[str, str]

POD = kinds.served("", "Pod")
RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 60.0
BACKOFF_SECONDS: Final = 10.0
MAX_BACKOFF_SECONDS: Final = 300.0
DEFAULT_GRACE_SECONDS: Final = 30
HOOK_SECONDS: Final = 300.0
IMAGE_IGNORED: Final = "The sandbox has no images: containers run the programs of the node"


@dataclass(frozen=True)
class Machine:
    """What the pods of a node share."""

    client: Client
    node: str
    address: str
    folder: Path
    cdi_directories: tuple[Path, ...]
    preparation: Preparation
    recorder: Recorder
    health_of: Callable[[Device], Health]
    now: Callable[[], datetime.datetime]
    allows_host: bool = False

    def pod_folder(self, uid: str) -> Path:
        return self.folder / uid


class PodWorker:
    def __init__(self, machine: Machine, pod: Pod) -> None:
        self._machine = machine
        self.pod = pod
        self._uid = pod.metadata.uid
        self._folder = machine.pod_folder(pod.metadata.uid)
        everyone = (*pod.spec.init_containers, *pod.spec.containers)
        self._seen = {each.name: Observed() for each in everyone}
        self._held: ClaimsOfPod = {}
        self._volumes: dict[str, Path] = {}
        self._is_over = statuses.has_ended(pod)
        self._deleted = asyncio.Event()
        self._news = asyncio.Event()
        self.update(pod)

    def update(self, pod: Pod) -> None:
        self.pod = pod
        if pod.metadata.deletion_timestamp is not None:
            self._deleted.set()

    @property
    def held(self) -> ClaimsOfPod:
        """The claims that are prepared for the pod, by their names in its spec."""
        return self._held

    def health_changed(self) -> None:
        if self._held and not self._is_over:
            self._news.set()

    def abandon(self) -> None:
        """The pod is gone from the API: end it without a word."""
        self._deleted.set()

    def log_of(self, container: str, *, previous: bool = False) -> Path | None:
        """The file with a container's output."""
        last = containers.last_attempt(self._folder / "containers" / container)
        if last is None or not previous:
            return last.log if last else None
        return last.folder.with_name(str(last.number - 1)) / last.log.name

    def exec_command(self, container: str, argv: tuple[str, ...]) -> tuple[list[str], Env]:
        """What runs a program in a running container, and with what environment.

        Raises LookupError where the container does not run.
        """
        attempt = containers.last_attempt(self._folder / "containers" / container)
        if attempt is None:
            raise LookupError(f"container {container} does not run")
        return sandbox.exec_command(attempt.first_process(), argv), attempt.environment()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(self._keep_reporting())
            if not self._is_over:
                await self._live_until_deleted(group)
                await self._stop_containers()
                self._is_over = True
            await self._give_back()
            reporting.cancel()
        await self._report_until_told()
        await self._deleted.wait()
        await self._confirm_deletion()
        containers.remove(self._folder)

    async def _live_until_deleted(self, group: asyncio.TaskGroup) -> None:
        living = group.create_task(self._live())
        deleted = group.create_task(self._deleted.wait())
        await asyncio.wait({living, deleted}, return_when=asyncio.FIRST_COMPLETED)
        for task in (living, deleted):
            task.cancel()
        await asyncio.wait({living, deleted})

    async def _live(self) -> None:
        """Everything up to the end of the last container."""
        self._tell(events.NORMAL, "ImageIgnored", IMAGE_IGNORED)
        self._held = await self._retry(self._prepare, "FailedPrepareDynamicResources")
        self._volumes = await self._retry(self._make_volumes, "FailedMount")
        async with asyncio.TaskGroup() as group:
            sidecars = []
            for container in self.pod.spec.init_containers:
                if statuses.is_sidecar(container):
                    sidecars.append(group.create_task(self._supervise(container, "Always")))
                elif (await self._supervise(container, self._init_policy())).code:
                    return self._cancel(sidecars)
            policy = self.pod.spec.restart_policy or "Always"
            mains = [
                group.create_task(self._supervise(container, policy))
                for container in self.pod.spec.containers
            ]
            await asyncio.wait(mains)
            self._cancel(sidecars)

    def _cancel(self, tasks: Iterable[asyncio.Task[Exit]]) -> None:
        for task in tasks:
            task.cancel()

    def _init_policy(self) -> str:
        return "Never" if self.pod.spec.restart_policy == "Never" else "OnFailure"

    async def _prepare(self) -> ClaimsOfPod:
        return await self._machine.preparation.prepare(self.pod)

    async def _make_volumes(self) -> dict[str, Path]:
        machine = self._machine
        return await Volumes(machine.client, machine.folder, machine.allows_host).prepare(self.pod)

    async def _supervise(self, container: Container, policy: str) -> Exit:
        """Run a container, again and again where its policy says so; how it ended at last."""
        folder = self._folder / "containers" / container.name
        attempt = containers.last_attempt(folder)
        while True:
            if attempt is None:
                attempt = await self._start_when_possible(container, folder, 0)
            ended = await self._watch(container, attempt)
            if policy == "Never" or (policy == "OnFailure" and not ended.code):
                return ended
            await self._back_off(container, attempt.number)
            attempt = await self._start_when_possible(container, folder, attempt.number + 1)

    async def _watch(self, container: Container, attempt: Attempt) -> Exit:
        """One start of a container, probed until it ends."""
        seen = self._seen[container.name]
        seen.attempt, seen.exit = attempt, attempt.exit()
        self._news.set()
        actions = self._actions(container, attempt)
        give_up = functools.partial(self._give_up, container, attempt)
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(self._probe(actions, seen, give_up))
            seen.exit = await attempt.wait()
            probing.cancel()
        self._news.set()
        return seen.exit

    async def _probe(
        self, actions: Actions, seen: Observed, give_up: Callable[[str], None]
    ) -> None:
        lifecycle = actions.container.lifecycle
        hook = lifecycle.post_start if lifecycle else None
        if hook is not None and not await actions.succeeds(hook, HOOK_SECONDS):
            give_up("PostStart hook failed")
            return
        await Prober(actions, seen, self._news.set, give_up).run()

    def _actions(self, container: Container, attempt: Attempt) -> Actions:
        run = functools.partial(execute, attempt)
        return Actions(container, self._machine.address, run)

    def _give_up(self, container: Container, attempt: Attempt, reason: str) -> None:
        note = f"{reason}: container {container.name} will be restarted"
        self._tell(events.WARNING, "Unhealthy", note)
        attempt.terminate()
        grace = self.pod.spec.termination_grace_period_seconds or DEFAULT_GRACE_SECONDS
        asyncio.get_running_loop().call_later(grace, attempt.kill)

    async def _back_off(self, container: Container, restarts: int) -> None:
        if not restarts:
            return
        seconds = min(BACKOFF_SECONDS * 2.0 ** min(restarts - 1, 8), MAX_BACKOFF_SECONDS)
        message = (
            f"back-off {seconds:.0f}s restarting failed container={container.name} "
            f"pod={self.pod.metadata.name}_{self.pod.metadata.namespace}({self._uid})"
        )
        self._seen[container.name].waits("CrashLoopBackOff", message)
        self._news.set()
        self._tell(events.WARNING, "BackOff", message)
        await asyncio.sleep(seconds)

    async def _start_when_possible(
        self, container: Container, folder: Path, number: int
    ) -> Attempt:
        delay = RETRY_SECONDS
        while True:
            try:
                spec = await self._spec(container)
            except (ConfigError, CdiError, errors.StatusError) as error:
                self._seen[container.name].waits("CreateContainerConfigError", str(error))
                self._news.set()
                self._tell(events.WARNING, "Failed", f"Error: {error}")
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)
            else:
                self._seen[container.name].waits("ContainerCreating")
                argv = sandbox.command(spec)
                started = await containers.start(folder, number, argv, spec.env)
                self._tell(events.NORMAL, "Started", f"Container started: {container.name}")
                return started

    async def _spec(self, container: Container) -> ContainerSpec:
        if not container.command:
            raise ConfigError(
                f"container {container.name} has no command and the sandbox has no images: "
                "set command, or run the node with --runtime podman"
            )
        ids = preparation.cdi_ids(self.pod, container, self._held)
        edits = cdi.resolve(ids, self._machine.cdi_directories)
        env = {"PATH": sandbox.PATH, "HOSTNAME": self.pod.metadata.name, "HOME": "/root"}
        env |= await environment.build(self._machine.client, self.pod, container)
        env |= edits.env
        return ContainerSpec(
            environment.command(container, env),
            env,
            container.working_dir,
            self.pod.spec.hostname or self.pod.metadata.name,
            (*self._etc(), *volumes.binds(container, self._volumes, env), *_mounts(edits)),
            edits.device_nodes,
        )

    def _etc(self) -> Iterable[Bind]:
        """A made /etc: who and where the container is, and nothing of the host's."""
        folder = self._folder / "etc"
        folder.mkdir(parents=True, exist_ok=True)
        name = self.pod.spec.hostname or self.pod.metadata.name
        files = {
            "hostname": f"{name}\n",
            "hosts": f"127.0.0.1 localhost\n{self._machine.address} {name}\n",
            "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
            "group": "root:x:0:\nnogroup:x:65534:\n",
            "nsswitch.conf": "hosts: files dns\n",
        }
        for file, content in files.items():
            path = folder / file
            if not path.exists():
                path.write_text(content, "utf-8")
            yield Bind(str(path), f"/etc/{file}")

    async def _stop_containers(self) -> None:
        everyone = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        running = [each for each in everyone if self._seen[each.name].is_running]
        if not running:
            return
        grace = self.pod.metadata.deletion_grace_period_seconds
        if grace is None:
            grace = self.pod.spec.termination_grace_period_seconds or DEFAULT_GRACE_SECONDS
        self._tell(events.NORMAL, "Killing", f"Stopping {len(running)} container(s)")
        await asyncio.gather(*(self._stop(each, grace) for each in running))

    async def _stop(self, container: Container, grace_seconds: float) -> None:
        seen = self._seen[container.name]
        assert seen.attempt is not None
        try:
            async with asyncio.timeout(grace_seconds):
                await self._pre_stop(container, seen.attempt, grace_seconds)
                seen.attempt.terminate()
                seen.exit = await seen.attempt.wait()
        except TimeoutError:
            seen.attempt.kill()
            seen.exit = await seen.attempt.wait()
        self._news.set()

    async def _pre_stop(self, container: Container, attempt: Attempt, grace_seconds: float) -> None:
        hook = container.lifecycle.pre_stop if container.lifecycle else None
        if hook is None:
            return
        if not await self._actions(container, attempt).succeeds(hook, grace_seconds):
            note = f"PreStop hook of container {container.name} failed"
            self._tell(events.WARNING, "FailedPreStopHook", note)

    async def _give_back(self) -> None:
        async def unprepare() -> None:
            await self._machine.preparation.unprepare(self._uid)

        await self._retry(unprepare, "FailedUnprepareDynamicResources")

    async def _confirm_deletion(self) -> None:
        async def delete() -> None:
            metadata = self.pod.metadata
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
            with contextlib.suppress(errors.NotFound, errors.Conflict):
                await self._machine.client.delete(POD, metadata.name, metadata.namespace, options)

        await self._retry(delete, "FailedDelete")

    async def _keep_reporting(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._report_until_told()

    async def _report_until_told(self) -> None:
        delay = RETRY_SECONDS
        while True:
            try:
                return await self._report()
            except errors.NotFound:
                return None
            except errors.StatusError as error:
                log.warning("status of pod %s: %s", self.pod.metadata.name, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_RETRY_SECONDS)

    async def _report(self) -> None:
        machine, metadata = self._machine, self.pod.metadata
        body = observation.status(
            self.pod,
            self._seen,
            is_over=self._is_over,
            address=machine.address,
            runtime=sandbox.NAME,
            now=machine.now(),
        )
        if statuses.has_ended(self.pod):
            return
        self._add_health(body["status"])
        await machine.client.patch(
            POD,
            metadata.name,
            body,
            metadata.namespace,
            subresource="status",
            patch_type=exchange.STRATEGIC_MERGE_PATCH,
        )

    def _add_health(self, status: statuses.Object) -> None:
        specs = {each.name: each for each in self.pod.spec.containers}
        for entry in status.get("containerStatuses", ()):
            container = specs[entry["name"]]
            found = health.resource_statuses(container, self._held, self._machine.health_of)
            if found:
                entry["allocatedResourcesStatus"] = found

    async def _retry(self, work: Callable[[], Awaitable[T]], reason: str) -> T:
        """Until it succeeds; each failure is told in one event, with when the next try is."""
        delay = RETRY_SECONDS
        while True:
            try:
                return await work()
            except (claims.NotUsable, ConfigError, DriverError, errors.StatusError) as error:
                note = f"{error}; next try in {delay:.1f} s"
                self._tell(events.WARNING, reason, note)
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)

    def _tell(self, type_: str, reason: str, note: str) -> None:
        reference = events.reference(POD, self.pod.metadata)
        replace = type_ == events.WARNING
        self._machine.recorder.record(reference, type_, reason, note, replace=replace)


async def execute(attempt: Attempt, argv: tuple[str, ...]) -> int:
    """Run a program inside a container; its exit code."""
    process = await asyncio.create_subprocess_exec(
        *sandbox.exec_command(attempt.first_process(), argv),
        env=attempt.environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise


def _mounts(edits: Edits) -> Iterable[Bind]:
    for mount in edits.mounts:
        yield Bind(mount.host_path, mount.container_path, "rw" not in mount.options)
