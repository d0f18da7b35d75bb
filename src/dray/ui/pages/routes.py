"""The pages by their paths below /ui/api/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dray.ui.pages import explanations, filters, health
from dray.ui.pages.capacity import CapacityCounter
from dray.ui.pages.histories import Histories
from dray.ui.pages.objects import claim_page, device_page, node_page, pod_page
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import PageQuestion, Viewer


class PageRoutes:
    """Answers questions; it keeps what takes long to find."""

    def __init__(self, history: Path | None) -> None:
        self._capacity, self.histories = CapacityCounter(), Histories(history)

    def close(self) -> None:
        self._capacity.close()
        self.histories.close()

    async def answer(self, viewer: Viewer, question: PageQuestion) -> Any:
        """Return the document of a page. Raises PageError, and the errors of the API server."""
        await viewer.model.synced.wait()
        match question.parts:
            case ("capacity",):
                return await self._capacity.of(viewer)
            case ("health",):
                return await health.of(viewer)
            case ("history", *_):
                return await self.histories.answer(viewer, question)
        return await _object_page(viewer, question)


async def _object_page(viewer: Viewer, question: PageQuestion) -> Any:
    match question.parts:
        case ("filter",):
            return await filters.matches(viewer, question.parameter("expression", filters.LONGEST))
        case ("explain", "pod", namespace, name):
            return await explanations.of_pod(viewer, namespace, name)
        case ("explain", "claim", namespace, name):
            return await explanations.of_claim(viewer, namespace, name)
        case ("pod", namespace, name):
            return await pod_page.of(viewer, namespace, name)
        case ("claim", namespace, name):
            return await claim_page.of(viewer, namespace, name)
        case ("node", name):
            return await node_page.of(viewer, name)
        case ("device",):
            return await device_page.of(viewer, question.parameter("key"))
    raise PageError(404, "there is no such page")
