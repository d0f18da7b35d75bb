"""One pod on its node, from its claims to its last container.

A worker that is cancelled leaves the containers running; the next one finds them on disk and goes
on. A pod that is deleted, or whose containers have all ended, gives its claims back.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.types.containers import Container
from dray.api.types.pods import Pod
from dray.client import events
from dray.driverkit.cdi import CdiError
from dray.node.containers import container_attempts
from dray.node.containers.container_attempts import Attempt, Command, Exit
from dray.node.containers.processes import Process
from dray.node.devices import claim_access
from dray.node.devices.drivers import DriverError
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.pods import container_specs, status_patches
from dray.node.pods.context import NodeContext
from dray.node.pods.pod_status import ObservedContainer, PodFailure
from dray.node.pods.probes import Actions, Prober
from dray.node.pods.status_reporter import PodState, PodStatusReporter
from dray.node.pods.volumes import Volumes
from dray.node.runtimes.interface import ContainerConfigError, ImageError
from dray.protocol.services import DEFAULT_TIMEOUT_SECONDS as CALL_SECONDS

T = TypeVar("T")


RETRY_SECONDS: Final = 0.2
MAX_RETRY_SECONDS: Final = 60.0
BACKOFF_SECONDS: Final = 10.0
MAX_BACKOFF_SECONDS: Final = 300.0
FORGIVEN_SECONDS: Final = 600.0
"""A container that ran so long is restarted at once."""
DEFAULT_GRACE_SECONDS: Final = 30
HOOK_SECONDS: Final = 300.0
SLOW_SECONDS: Final = 5.0
"""A driver that has not answered by then is told of."""
DEADLINE: Final = PodFailure(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)


class ContainerUnavailable(Exception):
    """A container that has no log, or does not run, now; the text is for whoever asked."""


class PodWorker:
    def __init__(self, machine: NodeContext, pod: Pod) -> None:
        self._machine = machine
        self._uid = pod.metadata.uid
        self._folder = machine.pod_folder(pod.metadata.uid)
        self._story = PodState(pod)
        self._reporter = PodStatusReporter(machine, self._story)
        self._volumes: dict[str, Path] = {}
        self._deleted = asyncio.Event()
        self.update(pod)

    @property
    def pod(self) -> Pod:
        return self._story.pod

    @property
    def held(self) -> ClaimsOfPod:
        """The claims that are prepared for the pod, by their names in its spec."""
        return self._story.held

    @property
    def grace_seconds(self) -> float:
        """How long the pod may take to stop."""
        asked = self.pod.metadata.deletion_grace_period_seconds
        if asked is not None:
            return asked
        own = self.pod.spec.termination_grace_period_seconds
        return DEFAULT_GRACE_SECONDS if own is None else own

    def update(self, pod: Pod) -> None:
        self._story.pod = pod
        if pod.metadata.deletion_timestamp is not None:
            self._deleted.set()

    def health_changed(self) -> None:
        if self.held and not self._story.is_over:
            self._story.notify_changed()

    def abandon(self) -> None:
        """The pod is gone from the API: end it without a word."""
        self._deleted.set()

    def has_container(self, name: str) -> bool:
        return name in self._story.containers

    def logged(self, container: str, *, previous: bool = False) -> Attempt:
        """The start of a container whose log is asked for; raises NotThere."""
        last = container_attempts.last_attempt(self._container_folder(container))
        found = last.previous if last is not None and previous else last
        if found is not None and found.log.exists():
            return found
        where = f'container "{container}" in pod "{self.pod.metadata.name}"'
        if previous:
            raise ContainerUnavailable(f"previous terminated {where} not found")
        raise ContainerUnavailable(
            f"{where} is waiting to start: {self._story.containers[container].waiting}"
        )

    def running(self, container: str) -> Attempt:
        """The running start of a container; raises NotThere."""
        last = container_attempts.last_attempt(self._container_folder(container))
        if last is None or last.exit() is not None:
            raise ContainerUnavailable(
                f"container {container} of pod {self.pod.metadata.name} does not run"
            )
        return last

    def exec_command(
        self, container: str, argv: tuple[str, ...], *, stdin: bool = False, tty: bool = False
    ) -> Command:
        """What runs a program in a running container; raises NotThere."""
        attempt = self.running(container)
        try:
            return self._machine.runtime.exec_command(attempt, argv, stdin=stdin, tty=tty)
        except LookupError as error:
            raise ContainerUnavailable(str(error)) from error

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            reporting = group.create_task(self._reporter.run())
            if not self._story.is_over:
                await self._live_until_ended(group)
                await self.stop()
            await self._give_back()
            reporting.cancel()
        # Told last: the devices of a pod that is over may be given to the next.
        self._story.is_over = True
        await self._reporter.report()
        await self._deleted.wait()
        await self._confirm_deletion()
        container_attempts.remove(self._folder)

    async def stop(self, at_most_seconds: float | None = None) -> None:
        """Stop what runs: the containers, then the sidecars, the last first."""
        grace = self.grace_seconds
        if at_most_seconds is not None:
            grace = min(grace, at_most_seconds)
        sidecars = [
            container
            for container in self.pod.spec.init_containers
            if status_patches.is_sidecar(container)
        ]
        others = [
            container for container in self.pod.spec.init_containers if container not in sidecars
        ]
        await self._stop_containers((*others, *self.pod.spec.containers), grace)
        for sidecar in reversed(sidecars):
            await self._stop_containers((sidecar,), grace)

    async def _live_until_ended(self, group: asyncio.TaskGroup) -> None:
        """Until the pod is deleted, its time is over, or its containers have ended."""
        tasks = {
            group.create_task(work)
            for work in (self._live(), self._deleted.wait(), self._until_deadline())
        }
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _until_deadline(self) -> None:
        """As long as the pod may be active, counted from its start, also across agents."""
        started = self._machine.now()
        while True:
            allowed = self.pod.spec.active_deadline_seconds
            if self.pod.status.start_time is not None:
                started = gotime.parse(self.pod.status.start_time)
            if allowed is None:
                await self._deleted.wait()
                return
            left = datetime.timedelta(seconds=allowed) - (self._machine.now() - started)
            if left <= datetime.timedelta():
                self._story.failure = DEADLINE
                self._tell(events.NORMAL, DEADLINE.reason, DEADLINE.message)
                return
            await asyncio.sleep(left.total_seconds())

    async def _live(self) -> None:
        """Everything up to the end of the last container."""
        if caution := self._machine.runtime.caution:
            self._tell(events.NORMAL, "ImageIgnored", caution)
        self._story.held = await self._retry(self._prepare, "FailedPrepareDynamicResources")
        self._volumes = await self._retry(self._make_volumes, "FailedMount")
        async with asyncio.TaskGroup() as group:
            sidecars: list[asyncio.Task[Exit]] = []
            for container in self.pod.spec.init_containers:
                if status_patches.is_sidecar(container):
                    sidecars.append(group.create_task(self._supervise(container, "Always")))
                    await self._has_started(container)
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

    async def _has_started(self, container: Container) -> None:
        seen = self._story.containers[container.name]
        await self._story.until(lambda: seen.is_started)

    def _init_policy(self) -> str:
        return "Never" if self.pod.spec.restart_policy == "Never" else "OnFailure"

    async def _prepare(self) -> ClaimsOfPod:
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._tell_slow)
        try:
            return await self._machine.preparation.prepare(self.pod)
        finally:
            slow.cancel()

    def _tell_slow(self) -> None:
        if silence := self._machine.preparation.waits_for(self._uid):
            note = (
                f"{silence} after {SLOW_SECONDS:.0f} s; it is given up after {CALL_SECONDS:.0f} s"
            )
            self._tell(events.WARNING, "SlowPrepareDynamicResources", note)

    async def _make_volumes(self) -> dict[str, Path]:
        machine = self._machine
        return await Volumes(machine.client, machine.folder, machine.allows_host).prepare(self.pod)

    async def _supervise(self, container: Container, policy: str) -> Exit:
        """Run a container, again and again where its policy says so; how it ended at last."""
        folder = self._container_folder(container.name)
        attempt = container_attempts.last_attempt(folder)
        if attempt is None or not attempt.has_begun:
            attempt = await self._start_when_possible(container, attempt.number if attempt else 0)
        while True:
            ended = await self._watch(container, attempt)
            if policy == "Never" or (policy == "OnFailure" and not ended.code):
                return ended
            await self._back_off(container, attempt, ended)
            container_attempts.remove(folder / str(attempt.number - 1))
            attempt = await self._start_when_possible(container, attempt.number + 1)

    async def _watch(self, container: Container, attempt: Attempt) -> Exit:
        """One start of a container, probed until it ends."""
        seen = self._story.containers[container.name]
        seen.attempt, seen.exit = attempt, attempt.exit()
        self._story.notify_changed()
        actions = self._actions(container, attempt)
        give_up = functools.partial(self._give_up, container, attempt)
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(self._probe(actions, seen, give_up))
            seen.exit = await attempt.wait()
            probing.cancel()
        if seen.exit.reason == container_attempts.LOST_REASON:
            self._machine.runtime.discard(attempt)
        self._story.notify_changed()
        return seen.exit

    async def _probe(
        self, actions: Actions, seen: ObservedContainer, give_up: Callable[[str], None]
    ) -> None:
        lifecycle = actions.container.lifecycle
        hook = lifecycle.post_start if lifecycle else None
        if hook is not None and not await actions.succeeds(hook, HOOK_SECONDS):
            give_up("PostStart hook failed")
            return
        await Prober(actions, seen, self._story.notify_changed, give_up).run()

    def _actions(self, container: Container, attempt: Attempt) -> Actions:
        async def execute(argv: tuple[str, ...]) -> int:
            return await run_to_end(self._machine.runtime.exec_command(attempt, argv))

        return Actions(container, self._machine.address, execute)

    def _give_up(self, container: Container, attempt: Attempt, reason: str) -> None:
        note = f"{reason}: container {container.name} will be restarted"
        self._tell(events.WARNING, "Unhealthy", note)
        attempt.terminate()
        asyncio.get_running_loop().call_later(self.grace_seconds, attempt.kill)

    async def _back_off(self, container: Container, attempt: Attempt, ended: Exit) -> None:
        restarts = attempt.number
        if not restarts or ended.finished_at - attempt.started_at > FORGIVEN_SECONDS:
            return
        seconds = min(BACKOFF_SECONDS * 2.0 ** min(restarts - 1, 8), MAX_BACKOFF_SECONDS)
        message = (
            f"back-off {seconds:.0f}s restarting failed container={container.name} "
            f"pod={self.pod.metadata.name}_{self.pod.metadata.namespace}({self._uid})"
        )
        self._waits(container, "CrashLoopBackOff", message)
        self._tell(events.WARNING, "BackOff", message)
        await asyncio.sleep(seconds)

    async def _start_when_possible(self, container: Container, number: int) -> Attempt:
        delay = RETRY_SECONDS
        while True:
            try:
                command = await self._command(container, number)
                break
            except ImageError as error:
                reason, message = error.reason, str(error)
            except (ContainerConfigError, CdiError, errors.StatusError) as error:
                reason, message = "CreateContainerConfigError", str(error)
            self._waits(container, reason, message)
            self._tell(events.WARNING, "Failed", f"Error: {message}; next try in {delay:.1f} s")
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_SECONDS)
        self._story.containers[container.name].waits("ContainerCreating")
        folder = self._container_folder(container.name)
        started = await self._machine.starter.start(folder, number, command)
        self._tell(events.NORMAL, "Started", f"Container started: {container.name}")
        return started

    async def _command(self, container: Container, number: int) -> Command:
        machine = self._machine
        spec = await container_specs.build(machine, self.pod, container, self.held, self._volumes)
        await machine.runtime.pull(container.image, container.image_pull_policy)
        folder = self._container_folder(container.name) / str(number)
        return machine.runtime.command(spec, str(folder))

    def _waits(self, container: Container, reason: str, message: str) -> None:
        self._story.containers[container.name].waits(reason, message)
        self._story.notify_changed()

    async def _stop_containers(self, group: Iterable[Container], grace_seconds: float) -> None:
        running = []
        for container in group:
            # As the disk tells: one that was just starting is not in the story yet.
            last = container_attempts.last_attempt(self._container_folder(container.name))
            if last is not None and last.has_begun and last.exit() is None:
                self._tell(events.NORMAL, "Killing", f"Stopping container {container.name}")
                running.append((container, last))
        await asyncio.gather(*(self._stop(*each, grace_seconds) for each in running))

    async def _stop(self, container: Container, attempt: Attempt, grace_seconds: float) -> None:
        seen = self._story.containers[container.name]
        seen.attempt = attempt
        try:
            async with asyncio.timeout(grace_seconds):
                await self._pre_stop(container, attempt, grace_seconds)
                attempt.terminate()
                seen.exit = await attempt.wait()
        except TimeoutError:
            attempt.kill()
            seen.exit = await attempt.wait()
        self._story.notify_changed()

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
                await self._machine.client.delete(
                    kinds.POD, metadata.name, metadata.namespace, options
                )

        await self._retry(delete, "FailedDelete")

    async def _retry(self, work: Callable[[], Awaitable[T]], reason: str) -> T:
        """Until it succeeds; each failure is told in one event, with when the next try is.

        A driver that comes or goes meanwhile is a reason to try at once.
        """
        delay = RETRY_SECONDS
        while True:
            changed = self._machine.drivers.changed
            try:
                return await work()
            except (
                claim_access.NotUsable,
                ContainerConfigError,
                DriverError,
                errors.StatusError,
            ) as error:
                self._tell(events.WARNING, reason, f"{error}; next try in {delay:.1f} s")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await changed.wait()
            delay = min(delay * 2, MAX_RETRY_SECONDS)

    def _container_folder(self, name: str) -> Path:
        return self._folder / "containers" / name

    def _tell(self, type_: str, reason: str, note: str) -> None:
        reference = events.reference(kinds.POD, self.pod.metadata)
        replace = type_ == events.WARNING
        self._machine.recorder.record(reference, type_, reason, note, replace=replace)


async def run_to_end(command: Command) -> int:
    """Run a program inside a container; its exit code."""
    process = Process(
        command.argv,
        env=command.env,
        cwd=command.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.kill()
        raise
