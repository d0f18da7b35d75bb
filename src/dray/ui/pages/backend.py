"""Everything behind the sessions: models, pages and actions. It is loaded for the first person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dray.api.features import Features
from dray.api.kinds import Kind
from dray.client.api_client import Client
from dray.client.discovery import OptionalKinds
from dray.ui.model import rights
from dray.ui.model.models import Membership, Models, TooManyModels
from dray.ui.pages import actions
from dray.ui.pages.actions import KnownRights
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.routes import PageRoutes
from dray.ui.pages.viewer import Viewer, question_of
from dray.ui.people import Person


class Backend:
    """Answers people who have a session; `run` has to run meanwhile."""

    def __init__(self, models: Models, history: Path | None) -> None:
        self._models, self._pages, self._rights = models, PageRoutes(history), KnownRights()

    @classmethod
    async def load(
        cls, client: Client, features: Features, history: Path | None, observer: Client | None
    ) -> Backend:
        """Return one for the cluster of a client, which finds out what the server has."""
        return cls(Models(features, await _followed(client, features), observer), history)

    async def run(self) -> None:
        """Follow clusters while people look at them, until cancelled."""
        try:
            await self._models.run()
        finally:
            self._pages.close()

    async def join(self, person: Person) -> Membership:
        """Return the place of a person at a model, for one more session. Raises PageError."""
        try:
            return await self._models.join(person)
        except TooManyModels as error:
            raise _too_many() from error

    def leave(self, member: Membership) -> None:
        """Take back one session."""
        self._models.leave(member)

    def viewer(self, member: Membership) -> Viewer:
        """Return a person with the model that runs for them now. Raises PageError."""
        try:
            explainer = self._models.explainer_of(member)
        except TooManyModels as error:
            raise _too_many() from error
        return Viewer(member.person, member.model, explainer)

    async def answer(self, member: Membership, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the document of a page. Raises PageError, and the errors of the API server."""
        question = question_of(path, parameters)
        return await self._pages.answer(self.viewer(member), question)

    async def act(self, member: Membership, asked: Mapping[str, Any]) -> str:
        """Do what a page asks for; return what was done."""
        return await actions.perform(self.viewer(member), asked)

    async def about(self, member: Membership, *, allows_actions: bool) -> dict[str, Any]:
        """Return what the session document says besides who it is."""
        found = actions.NO_RIGHTS
        if allows_actions:
            found = await self._rights.of(self.viewer(member))
        return {
            "canAct": found.any,
            "rights": found,
            "history": await self._pages.histories.about(),
        }


def _too_many() -> PageError:
    message = "too many people with other rights look at the cluster"
    return PageError(429, message, "Try again later.")


async def _followed(client: Client, features: Features) -> Sequence[Kind]:
    served = await OptionalKinds.of(client, features)
    return [*rights.FOLLOWED, *((served.taint_rules,) if served.taint_rules else ())]
