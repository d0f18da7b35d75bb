"""The models of all who look at a cluster: one for all people with the same rights."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dray.api import errors
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.client.api_client import Client
from dray.ui.model import rights
from dray.ui.model.explainer import Explainer
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.model.rights import Rights
from dray.ui.people import Person

log = logging.getLogger(__name__)

REFRESH_SECONDS = 20.0
"""How often the rights of all who look are found out again."""
UNUSED_SECONDS = 60.0
"""How long a model is kept that nobody looks at, for those who come back."""
MODELS_LIMIT = 16
"""Different rights that are served at the same time: each has a copy of the cluster."""


class TooManyModels(Exception):
    """Too many people with different rights look at the cluster."""


@dataclass(slots=True, eq=False)
class _Shared:
    """A model with the task that runs it, and its readers."""

    model: FollowedCluster
    explainer: Explainer
    task: asyncio.Task[None]
    unused_since: float | None = None


@dataclass(slots=True, eq=False)
class Membership:
    """A person's place at a model. The model is another one when the rights change."""

    person: Person
    model: FollowedCluster
    sessions: int = 0
    is_ended: bool = False
    """Whether the identity is no longer good: sessions end."""
    namespaces: tuple[str, ...] = field(default=())


class Models:
    """Runs models while people look at them; `run` has to run meanwhile."""

    def __init__(
        self,
        features: Features,
        followed: Sequence[Kind],
        observer: Client | None = None,
    ) -> None:
        self._features, self._followed, self._observer = features, followed, observer
        self._shared: dict[Hashable, _Shared] = {}
        self._members: dict[Hashable, Membership] = {}
        self._group: asyncio.TaskGroup | None = None
        self._joining = asyncio.Lock()
        self._runs = asyncio.Event()

    async def run(self) -> None:
        """Find out rights again and again, and end models that nobody uses, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                self._runs.set()
                while True:
                    await asyncio.sleep(REFRESH_SECONDS)
                    await self._refresh()
        finally:
            self._group = None
            self._runs.clear()
            self._shared.clear()

    async def join(self, person: Person) -> Membership:
        """Return the place of a person, for one more session.

        Raises the errors of the API server, and TooManyModels.
        """
        await self._runs.wait()
        async with self._joining:
            member = self._members.get(person.key)
            if member is None or member.is_ended:
                found = await rights.rights_of(person.client, self._followed, person.namespaces)
                member = Membership(person, self._model_for(found, person))
                self._members[person.key] = member
            member.sessions += 1
            return member

    def leave(self, member: Membership) -> None:
        """Take back one session of a person."""
        member.sessions -= 1
        if member.sessions <= 0:
            if self._members.get(member.person.key) is member:
                del self._members[member.person.key]
            self._quit(member)

    def _model_for(self, found: Rights, person: Person) -> FollowedCluster:
        key = found
        shared = self._shared.get(key)
        if shared is None or shared.model.log.is_closed:
            if len(self._shared) >= MODELS_LIMIT:
                self._end_unused(0.0)
            if len(self._shared) >= MODELS_LIMIT:
                raise TooManyModels
            assert self._group is not None, "models are used while they run"
            model = FollowedCluster(found, self._features, observer=self._observer)
            model.transport.readers[person.key] = person.transport
            explainer = Explainer(model)
            task = self._group.create_task(_run(model, explainer))
            shared = self._shared[key] = _Shared(model, explainer, task)
        shared.model.transport.readers[person.key] = person.transport
        shared.unused_since = None
        return shared.model

    def _quit(self, member: Membership) -> None:
        readers = member.model.transport.readers
        # The last identity stays until the model ends, which needs one.
        if len(readers) > 1:
            readers.pop(member.person.key, None)
        else:
            for shared in self._shared.values():
                if shared.model is member.model:
                    shared.unused_since = _now()
        member.model.log.wake()

    async def _refresh(self) -> None:
        for member in list(self._members.values()):
            try:
                await self._look_again(member)
            except (errors.StatusError, TooManyModels) as error:
                log.warning("rights of %s cannot be found out: %s", member.person.name, error)
        self._end_unused(UNUSED_SECONDS)

    async def _look_again(self, member: Membership) -> None:
        person = member.person
        if not await person.is_current():
            self.end(member)
            return
        found = await rights.rights_of(person.client, self._followed, person.namespaces)
        if found != member.model.rights and member.sessions > 0:
            before = member.model
            member.model = self._model_for(found, person)
            self._quit(Membership(person, before))

    def explainer_of(self, member: Membership) -> Explainer:
        """Return what explains the cluster of a person."""
        self.revive(member)
        return self._shared[member.model.rights].explainer

    def revive(self, member: Membership) -> None:
        """Give a person another model if that one has ended. Raises TooManyModels."""
        if member.model.log.is_closed:
            member.model = self._model_for(member.model.rights, member.person)

    def end(self, member: Membership) -> None:
        """End the sessions of a person whose identity is no longer good."""
        member.is_ended = True
        member.model.log.wake()

    def _end_unused(self, seconds: float) -> None:
        now = _now()
        for key, shared in list(self._shared.items()):
            since = shared.unused_since
            if since is not None and now - since >= seconds:
                del self._shared[key]
                shared.model.log.close()
                shared.task.cancel()


async def _run(model: FollowedCluster, explainer: Explainer) -> None:
    """Run a model to its end. One that fails is given up: who looks at it gets another."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in (model.run, explainer.run):
                group.create_task(work())
    except Exception:
        log.exception("a model of the dashboard failed")
    finally:
        model.log.close()
        explainer.close()


def _now() -> float:
    return asyncio.get_running_loop().time()
