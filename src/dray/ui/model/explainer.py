"""Explains what waits, in a thread and for a part of the time, and what a page asks for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import msgspec

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.kinds import Kind
from dray.api.semantics import pod_claims
from dray.api.types.core import CoreEvent
from dray.api.types.pods import Pod
from dray.client.api_client import Client, ObjectSelection
from dray.client.cache import ObjectChange
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import pod_fix_text, pod_progress_text, waiting_cause
from dray.explain.pod.pod_explanation import PodExplanation
from dray.explain.text import explanation_text
from dray.ui.model.explained_cluster import EXPLAINED, ExplainedCluster, Unexplained
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.model.waiting_state import CLAIM, POD, WaitingKey, WaitingReason

ROUND_SECONDS = 0.25
"""The CPU time after which others get a turn: pages that ask, and the event loop."""
REST_FACTOR = 2
"""The pause after a round, as a multiple of the CPU time that it took: a third of a core."""
SETTLE_SECONDS = 0.3
"""How long something waits before it is explained: most pods get a node at once."""
AGAIN_SECONDS = 10.0
"""How often everything that waits is explained again while the cluster changes."""
EVENT_READS = 20
"""For how many pods of a round events are read."""
T = TypeVar("T")


class PodEvents(NamedTuple):
    """The events about a pod, as far as they may be read."""

    events: tuple[CoreEvent, ...] = ()
    may_read: bool = True


class Explainer:
    """Explains for one model; `run` has to run meanwhile."""

    def __init__(self, model: FollowedCluster) -> None:
        self._model = model
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dray-explainer")
        self._cluster: ExplainedCluster | None = None
        self._has_changed = False

    async def run(self) -> None:
        """Explain what waits whenever that is due, until cancelled."""
        model, loop = self._model, asyncio.get_running_loop()
        again = loop.time() + AGAIN_SECONDS
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            if not model.synced.is_set():
                continue
            if self._has_changed and loop.time() >= again and not model.waiting.due:
                self._has_changed, again = False, loop.time() + AGAIN_SECONDS
                model.waiting.explain_all_again()
            if model.waiting.due:
                spent = await self._round()
                await asyncio.sleep(REST_FACTOR * spent)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, question: Callable[[ExplainedCluster], T]) -> T:
        """Return the answer to a question about the cluster, found in the thread."""
        cluster = self._followed()

        def answer() -> T:
            cluster.take_over()
            return question(cluster)

        return await asyncio.get_running_loop().run_in_executor(self._thread, answer)

    async def events_of(self, key: ObjectKey, client: Client) -> PodEvents:
        """Return the events about a pod."""
        fields = f"involvedObject.kind=Pod,involvedObject.name={key.name}"
        selection = ObjectSelection(key.namespace, field_selector=fields)
        try:
            page = await client.list(kinds.EVENT, selection)
        except errors.Forbidden:
            return PodEvents(may_read=False)
        except errors.StatusError:
            return PodEvents()
        found = []
        for item in page.items:
            with contextlib.suppress(msgspec.ValidationError):
                found.append(msgspec.json.decode(item, type=CoreEvent))
        return PodEvents(tuple(found))

    def _followed(self) -> ExplainedCluster:
        """Return the copy for explanations, which is made when it is first needed."""
        if self._cluster is None:
            rights = self._model.rights
            cluster = self._cluster = ExplainedCluster(
                self._model.features, rights.unread, rights.partly_read
            )
            for change in self._everything():
                cluster.add(change)
            self._model.listeners.append(self._changed)
        return self._cluster

    def _everything(self) -> Iterator[ObjectChange[Any]]:
        for type_ in EXPLAINED:
            kind = next(
                (kind for kind, _ in self._model.rights.namespaces if kind.kind == type_.__name__),
                None,
            )
            for found in self._model.objects(kind) if kind is not None else ():
                yield ObjectChange(found.metadata.key, None, found)

    def _changed(self, kind: Kind, change: ObjectChange[Any]) -> None:
        if self._cluster is not None:
            self._cluster.add(change)
        self._has_changed = True

    async def _round(self) -> float:
        """Explain what is due for a while; return the CPU time that it took."""
        waiting = self._model.waiting
        due = list(waiting.due)
        events: dict[WaitingKey, PodEvents] = {}
        for key in due:
            if len(events) >= EVENT_READS:
                break
            if self._needs_events(key):
                where = ObjectKey(key.namespace, key.name)
                events[key] = await self.events_of(where, self._model.client)
        due = [key for key in due if key in events or not self._needs_events(key)]
        reasons, spent = await self.ask(lambda cluster: _reasons(cluster, due, events))
        for key, reason in reasons.items():
            waiting.due.pop(key, None)
            if reason is not None:
                waiting.explained(key, reason)
        self._model.something_changed()
        return spent

    def _needs_events(self, key: WaitingKey) -> bool:
        """Return whether an explanation reads events: of a node agent, or of a missing claim."""
        if key.type != POD:
            return False
        pod: Pod | None = self._model.find(kinds.POD, key.name, key.namespace)
        if pod is None:
            return False
        return bool(pod.spec.node_name) or not all(
            used.name for used in pod_claims.claims_of_pod(pod)
        )


def _reasons(
    cluster: ExplainedCluster, due: list[WaitingKey], events: dict[WaitingKey, PodEvents]
) -> tuple[dict[WaitingKey, WaitingReason | None], float]:
    """Explain as many as there is time for, None for what is gone; and say what it took."""
    found: dict[WaitingKey, WaitingReason | None] = {}
    began = time.thread_time()
    for key in due:
        found[key] = _reason(cluster, key, events.get(key, PodEvents()))
        if time.thread_time() - began > ROUND_SECONDS:
            break
    return found, time.thread_time() - began


def _reason(cluster: ExplainedCluster, key: WaitingKey, about: PodEvents) -> WaitingReason | None:
    where = ObjectKey(key.namespace, key.name)
    try:
        if key.type == CLAIM:
            return reason_of_claim(cluster.explain_claim(where))
        pod, explained, _ = cluster.explain_pod(where, about.events, may_read_events=about.may_read)
        return reason_of_pod(pod, explained)
    except Unexplained as error:
        return WaitingReason(str(error), "", "") if "rights" in str(error) else None


def reason_of_pod(pod: Pod, explained: PodExplanation) -> WaitingReason:
    """Return why a pod waits; it does not if it has a node and nothing is in its way."""
    is_waiting = not pod.spec.node_name or explained.progress.blocked is not None
    return WaitingReason(
        pod_progress_text.headline(explained.progress),
        waiting_cause.short(explained),
        first_fix(pod_fix_text.fixes(explained)),
        is_waiting,
    )


def reason_of_claim(explanation: Explanation) -> WaitingReason:
    """Return why a claim waits that no pod uses."""
    fits = explanation.outcome in (Outcome.FITS, Outcome.ALLOCATED)
    return WaitingReason(
        explanation_text.headline(explanation),
        waiting_cause.NO_POD if fits else explanation_text.short(explanation),
        first_fix(explanation_text.fixes(explanation)),
    )


def first_fix(lines: list[str]) -> str:
    """Return the best of the lines that say what would help, without its mark."""
    for line in lines:
        if line.startswith("fix: "):
            return line.removeprefix("fix: ")
    return ""
