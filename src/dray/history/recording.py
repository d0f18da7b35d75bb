"""One attempt to record: from what the disk has, to the first failure."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from dray.api import errors, kinds
from dray.api.features import Features
from dray.api.http_messages import JSON, Request
from dray.api.ids import ClaimKey, PoolId
from dray.api.types.dra import DeviceClass, DeviceTaintRule, ResourceSlice
from dray.client.api_client import Client, collection_path
from dray.client.discovery import OptionalKinds
from dray.history.cluster_facts import NOTHING, TOTALS, ClusterFacts, Facts, FactSource, time_of
from dray.history.fact_changes import ChangeTime, FactChanges
from dray.history.facts import RecordProgress, WaitingFact
from dray.history.followed_kind import (
    MODIFIED,
    FollowedKind,
    KindListing,
    NamedObject,
    ObjectEvent,
    revision,
)
from dray.history.history_file import HistoryFile, HistoryUnusable, LastRecord
from dray.history.objects import ClaimUpdate, RecordedClaim, RecordedPod

__all__ = [
    "InThread",
    "MayNotRead",
    "OtherCluster",
    "Recording",
    "Setting",
    "cluster_uid",
]

log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.1
"""Events are read together: to be woken for each costs more than the event."""
MANY_EVENTS: Final = 100
COMMIT_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 10.0
SWEEP_SECONDS: Final = 3600.0
BOOKMARK, DELETED, PRESENT = "BOOKMARK", "DELETED", ("ADDED", "MODIFIED")
MAX_PENDING: Final = 50_000
"""Changes that wait for the disk; then nothing more is read."""
CLOCK_JUMP: Final = 60_000
"""Milliseconds; a clock that is set back by less stands still for so long."""

T = TypeVar("T")
ObjectT = TypeVar("ObjectT", bound=NamedObject)


NODE_NAME: Final = b'"nodeName":"'


class InThread(Protocol):
    """Runs work that blocks in the one thread that uses the file."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class OtherCluster(HistoryUnusable):
    """The file is the history of another cluster."""


class MayNotRead(HistoryUnusable):
    """The user may not list what a recorder follows."""


class Setting(msgspec.Struct, frozen=True):
    """The parts that all attempts of a recorder have in common."""

    client: Client
    file: HistoryFile
    features: Features
    now: Callable[[], datetime.datetime]
    follows_new_clusters: bool
    is_recording: asyncio.Event

    def check_cluster(self, recorded: LastRecord, cluster: str) -> bool:
        """Return whether the file is about this cluster, as far as that is known."""
        if not recorded.cluster or not cluster or recorded.cluster == cluster:
            return True
        if self.follows_new_clusters:
            return False
        raise OtherCluster(
            f"{self.file.path} is the history of another cluster: its namespace kube-system has "
            f"the UID {recorded.cluster}, not {cluster}",
            "Choose another file with --file.",
        )


class _Kinds(NamedTuple):
    """The kinds that are followed; in this order objects are understood at the start."""

    classes: FollowedKind[DeviceClass]
    slices: FollowedKind[ResourceSlice]
    rules: FollowedKind[DeviceTaintRule] | None
    claims: FollowedKind[RecordedClaim | ClaimUpdate]
    pods: FollowedKind[RecordedPod]

    def present(self) -> list[FollowedKind[Any]]:
        return [item for item in self if item is not None]


class Recording:
    """One attempt: from what the disk has, to the first failure."""

    def __init__(self, setting: Setting, in_thread: InThread) -> None:
        self._setting, self._in_thread = setting, in_thread
        self._client, self._file = setting.client, setting.file
        self._facts = ClusterFacts(setting.features)
        self._changes = FactChanges({})
        self._versions: dict[str, str] = {}
        self._kinds: _Kinds
        self._cluster = ""
        self._begins_anew = False
        self._last = 0
        """The last time that was used: times do not go back."""
        self._waiting: set[str] = set()
        """The UIDs of the pods that wait."""
        self._unclassified: dict[str, RecordedPod] = {}
        """Waiting pods whose claims were not seen yet."""
        self._needs_slices = False
        self._has_changes, self._has_room = asyncio.Event(), asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._heard = 0
        """The last time at which all connections stood."""
        self._is_ready = False
        self.has_recorded = False
        """Whether the disk has the state at the start of this attempt."""

    async def run(self) -> None:
        """Record until something fails. Raises Expired, Gone and HistoryUnusable."""
        recorded = await self._in_thread(self._file.load)
        cluster = await cluster_uid(self._client)
        is_same = self._setting.check_cluster(recorded, cluster)
        self._cluster = cluster or recorded.cluster
        self._kinds = await self._followed()
        await self._take_over(recorded if is_same else recorded._replace(versions={}))
        await self._commit()
        self.has_recorded = True
        self._setting.is_recording.set()
        await self._go_on()

    async def end(self) -> None:
        """Write what is still to be written, if that is possible."""
        if not self._is_ready:
            return
        self._is_ready = False
        with contextlib.suppress(HistoryUnusable):
            if self._writing is not None:
                # What this was to write is not written again: if it failed, nothing follows.
                await self._writing
            await self._commit()

    async def _followed(self) -> _Kinds:
        client = self._client
        served = await OptionalKinds.of(client, self._setting.features)
        rules = served.taint_rules
        return _Kinds(
            FollowedKind(client, kinds.DEVICE_CLASS, DeviceClass),
            FollowedKind(client, kinds.RESOURCE_SLICE, ResourceSlice),
            FollowedKind(client, rules, DeviceTaintRule) if rules else None,
            _followed_claims(client),
            FollowedKind(
                client, kinds.POD, RecordedPod, keeps=self._sees_pod, skips=self._skips_pod
            ),
        )

    def _sees_pod(self, pod: RecordedPod) -> bool:
        """Return whether a pod waits: there are many others, which are not kept."""
        self._facts.pod(pod)
        return pod.waiting_reason() is not None

    def _skips_pod(self, line: bytes) -> bool:
        """Return whether an event is about a pod with a node, while none waits."""
        return not self._waiting and line.startswith(MODIFIED) and NODE_NAME in line

    # From what was known to what is.

    async def _take_over(self, recorded: LastRecord) -> None:
        """Record what has changed since the file was written last."""
        following = self._kinds.present()
        listings = await asyncio.gather(*(kind.read() for kind in following))
        listed = {kind.kind.plural: found for kind, found in zip(following, listings, strict=True)}
        self._understand(listed)
        past = await self._past(recorded, listed)
        self._changes = FactChanges(recorded.facts)
        now = self._clock()
        known = min(recorded.until, now) if recorded.until is not None else None
        self._last = max(now, recorded.until or 0) if past is not None else now
        if past is None:
            self._begins_anew = True
            self._compare(listed, ChangeTime(known or 0, now, end_is_about=True))
        else:
            self._catch_up(past, listed, known or 0, now)
        self._needs_slices = False
        self._heard = self._clock()
        self._versions = {plural: found.version for plural, found in listed.items()}
        for plural, events in (past or {}).items():
            for event in events:
                if not _is_after(event, listed[plural]):
                    continue
                self._application(plural)(event, ChangeTime.at(self._heard))
                self._versions[plural] = event.version
        self._waiting.update(source.id for source in self._changes.sources("pod"))
        self._is_ready = True

    def _understand(self, listed: Mapping[str, KindListing[Any]]) -> None:
        for found in listed[kinds.DEVICE_CLASS.plural].objects:
            self._facts.class_changed(found.metadata.name, found)
        if self._kinds.rules is not None:
            for found in listed[self._kinds.rules.kind.plural].objects:
                self._facts.rule_changed(found.metadata.name, found)
        for found in listed[kinds.RESOURCE_SLICE.plural].objects:
            self._facts.slice_changed(found.metadata.name, found)

    async def _past(
        self, recorded: LastRecord, listed: Mapping[str, KindListing[Any]]
    ) -> dict[str, list[ObjectEvent[Any]]] | None:
        """Return everything that happened since the file was written, or None if it is unknown."""
        if recorded.until is None:
            return None
        following = {kind.kind.plural: kind for kind in self._kinds.present()}
        past = await asyncio.gather(
            *(
                kind.since(recorded.versions.get(plural, ""), listed[plural].version)
                for plural, kind in following.items()
            )
        )
        found = {
            plural: events
            for plural, events in zip(following, past, strict=True)
            if events is not None
        }
        return found if len(found) == len(following) else None

    def _compare(self, listed: Mapping[str, KindListing[Any]], time: ChangeTime) -> int:
        """Replace all facts by those of the objects; return how many objects differ."""
        changes, facts = self._changes, self._facts
        claims = [
            (FactSource("claim", item.metadata.uid), facts.claim(item))
            for item in listed[kinds.RESOURCE_CLAIM.plural].objects
        ]
        pods = [
            (FactSource("pod", item.metadata.uid), facts.pod(item))
            for item in listed[kinds.POD.plural].objects
        ]
        pools = [(FactSource("pool", str(pool)), facts.pool(pool)) for pool in facts.pools()]
        differing = changes.put_only("claim", claims, time)
        differing += changes.put_only("pod", pods, time)
        differing += changes.put_only("pool", pools, time)
        changes.put(TOTALS, facts.totals(), time)
        return differing

    def _catch_up(
        self,
        past: Mapping[str, list[ObjectEvent[Any]]],
        listed: Mapping[str, KindListing[Any]],
        known: int,
        now: int,
    ) -> None:
        """Record what happened since the file was written, in the order of the revisions."""
        events = [
            (plural, event)
            for plural, found in past.items()
            for event in found
            if event.type != BOOKMARK and not _is_after(event, listed[plural])
        ]
        # Pods first: from them claims have their users.
        for event in past[kinds.POD.plural]:
            if event.type in PRESENT:
                self._facts.pod(event.object)
        written: dict[str, int] = {}
        reached = known
        for plural, event in sorted(events, key=lambda item: revision(item[1].version)):
            uid, claimed = event.object.metadata.uid, time_of(event.written)
            is_about = claimed <= written.get(uid, known // 1000 * 1000)
            reached = min(max(reached, claimed), now)
            written[uid] = claimed
            self._application(plural)(event, ChangeTime(reached, reached, is_about))
        differing = self._compare(listed, ChangeTime(reached, now, end_is_about=True))
        if differing:
            log.warning("%d objects differ from what the server says about its past", differing)

    # What happens now.

    async def _go_on(self) -> None:
        loops: list[Callable[[], Awaitable[None]]] = [self._commit_regularly, self._sweep_regularly]
        loops += [functools.partial(self._follow, kind) for kind in self._kinds.present()]
        tasks = [asyncio.ensure_future(loop()) for loop in loops]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _follow(self, kind: FollowedKind[Any]) -> None:
        plural = kind.kind.plural
        apply = self._application(plural)
        async for batch in kind.follow(self._versions[plural]):
            time = ChangeTime.at(self._clock())
            for event in batch.events:
                if event.type != BOOKMARK:
                    apply(event, time)
            self._versions[plural] = batch.version
            if self._needs_slices:
                self._needs_slices = False
                await self._see_slices()
            if len(self._changes) > MAX_PENDING:
                self._has_room.clear()
                await self._has_room.wait()
            elif batch.size < MANY_EVENTS:
                await asyncio.sleep(GATHER_SECONDS)

    async def _see_slices(self) -> None:
        """Look again which classes select the devices."""
        listing = await self._kinds.slices.read()
        for found in listing.objects:
            self._facts.slice_changed(found.metadata.name, found)

    def _application(self, plural: str) -> Callable[[ObjectEvent[Any], ChangeTime], None]:
        """Return what takes over an event of a kind."""
        takes_over: dict[str, Callable[[ObjectEvent[Any], ChangeTime], None]] = {
            kinds.RESOURCE_CLAIM.plural: self._claim_changed,
            kinds.POD.plural: self._pod_changed,
            kinds.RESOURCE_SLICE.plural: self._slice_changed,
            kinds.DEVICE_CLASS.plural: self._class_changed,
            kinds.DEVICE_TAINT_RULE.plural: self._rule_changed,
        }
        return takes_over[plural]

    def _claim_changed(
        self, event: ObjectEvent[RecordedClaim | ClaimUpdate], time: ChangeTime
    ) -> None:
        claim = event.object
        uid = claim.metadata.uid
        if event.type != DELETED:
            self._put(FactSource("claim", uid), self._facts.claim(claim), time)
        else:
            key = ClaimKey(claim.metadata.namespace, claim.metadata.name)
            self._facts.claim_removed(key, uid)
            self._put(FactSource("claim", uid), NOTHING, time)

    def _pod_changed(self, event: ObjectEvent[RecordedPod], time: ChangeTime) -> None:
        if event.type != DELETED:
            self._put_pod(event.object, time)
        else:
            uid = event.object.metadata.uid
            self._facts.pod_removed(uid)
            self._unclassified.pop(uid, None)
            self._waiting.discard(uid)
            self._put(FactSource("pod", uid), NOTHING, time)

    def _slice_changed(self, event: ObjectEvent[ResourceSlice], time: ChangeTime) -> None:
        name = event.object.metadata.name
        self._put_pools(self._facts.slice_changed(name, _present(event)), time)

    def _rule_changed(self, event: ObjectEvent[DeviceTaintRule], time: ChangeTime) -> None:
        name = event.object.metadata.name
        self._put_pools(self._facts.rule_changed(name, _present(event)), time)

    def _class_changed(self, event: ObjectEvent[DeviceClass], time: ChangeTime) -> None:
        name = event.object.metadata.name
        self._needs_slices |= self._facts.class_changed(name, _present(event))

    def _put(self, source: FactSource, facts: Facts, time: ChangeTime) -> None:
        if self._changes.put(source, facts, time):
            self._has_changes.set()

    def _put_pod(self, pod: RecordedPod, time: ChangeTime) -> None:
        uid = pod.metadata.uid
        facts = self._facts.pod(pod)
        self._unclassified.pop(uid, None)
        self._waiting.discard(uid)
        if facts:
            self._waiting.add(uid)
            if any(isinstance(item, WaitingFact) and not item.device_class for item in facts):
                self._unclassified[uid] = pod
        self._put(FactSource("pod", uid), facts, time)

    def _put_pools(self, pools: Iterable[PoolId], time: ChangeTime) -> None:
        for pool in pools:
            self._put(FactSource("pool", str(pool)), self._facts.pool(pool), time)

    def _clock(self) -> int:
        """Return the time in milliseconds. It does not go back by a little."""
        now = int(self._setting.now().timestamp() * 1000)
        if now < self._last - CLOCK_JUMP:
            log.warning("the clock was set back by %d s", (self._last - now) // 1000)
            self._begins_anew = True
        elif now < self._last:
            return self._last
        self._last = now
        return now

    async def _commit_regularly(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._has_changes.wait()
                await asyncio.sleep(GATHER_SECONDS)
            await self._commit()
            # What is alone is written at once, and what comes in masses together.
            await asyncio.sleep(COMMIT_SECONDS)

    async def _commit(self) -> None:
        """Write what has changed. Nothing else may be written if this fails."""
        now = self._clock()
        for pod in list(self._unclassified.values()):
            self._put_pod(pod, ChangeTime.at(now))
        self._changes.put(TOTALS, self._facts.totals(), ChangeTime.at(now))
        if all(kind.is_connected for kind in self._kinds.present()):
            self._heard = now
        self._has_changes.clear()
        changes = self._changes.take()
        progress = RecordProgress(
            self._heard, dict(self._versions), self._begins_anew, self._cluster
        )
        self._begins_anew = False
        self._writing = asyncio.ensure_future(
            self._in_thread(functools.partial(self._file.commit, changes, progress))
        )
        # The thread goes on if this task is cancelled; `end` waits for it.
        await asyncio.shield(self._writing)
        self._writing = None
        self._has_room.set()

    async def _sweep_regularly(self) -> None:
        while True:
            while await self._in_thread(functools.partial(self._file.sweep, self._clock())):
                await asyncio.sleep(0)
            await asyncio.sleep(SWEEP_SECONDS)


async def cluster_uid(client: Client) -> str:
    """Return the UID of the namespace kube-system, or "" where it cannot be read."""
    try:
        found = await client.get(kinds.NAMESPACE, "kube-system")
    except errors.ClientError:
        return ""
    return str(found["metadata"].get("uid", ""))


async def check_rights(client: Client, features: Features) -> None:
    """Raise MayNotRead where a kind that is followed may not be listed."""
    served = await OptionalKinds.of(client, features)
    followed = [kinds.DEVICE_CLASS, kinds.RESOURCE_SLICE, kinds.RESOURCE_CLAIM, kinds.POD]
    refused = []
    for kind in [*followed, *([served.taint_rules] if served.taint_rules else [])]:
        one = Request("GET", collection_path(kind), (("limit", "1"),), {"accept": JSON})
        try:
            await client.send(one)
        except errors.Forbidden:
            refused.append(kind.plural)
    if refused:
        raise MayNotRead(
            f"you may not list {', '.join(refused)} in all namespaces",
            "A recorder needs list and watch for these.",
        )


def _followed_claims(client: Client) -> FollowedKind[RecordedClaim | ClaimUpdate]:
    return FollowedKind[RecordedClaim | ClaimUpdate](
        client, kinds.RESOURCE_CLAIM, RecordedClaim, update=ClaimUpdate
    )


def _present(event: ObjectEvent[ObjectT]) -> ObjectT | None:
    return event.object if event.type != DELETED else None


def _is_after(event: ObjectEvent[Any], listing: KindListing[Any]) -> bool:
    return revision(event.version) > revision(listing.version)
