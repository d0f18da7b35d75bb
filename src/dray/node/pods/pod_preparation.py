"""Claims and volumes of a pod: prepared before its first container, given back after the last."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final

from dray.api import kinds, well_known
from dray.api.semantics import pod_claims
from dray.node.devices.preparation import ClaimsOfPod
from dray.node.pods.context import PodWorkerContext
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import security_profiles
from dray.node.specs.volumes import PreparedVolume, Volumes
from dray.protocol.services import DEFAULT_TIMEOUT_SECONDS as CALL_SECONDS

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 5.0
"""A driver that has not answered by then is named in an event."""

MIN_USER, MAX_USER = 1000, 2**31 - 2
"""The users of the host that a namespace may have: neither root nor the system's."""


class PodPreparation:
    """Prepares what a pod needs on its node. Each step is retried until it succeeds."""

    def __init__(self, context: PodWorkerContext) -> None:
        self._context = context

    async def prepare(self) -> None:
        """Fill in the claims and volumes of the pod's state."""
        context, state = self._context, self._context.state
        claims = await context.retry(self._prepare_claims, well_known.FAILED_PREPARE_REASON)
        state.prepared_claims = claims
        self._log_claims("prepared")
        state.volumes = await context.retry(self._make_volumes, "FailedMount")

    async def unprepare(self) -> None:
        """Give back every claim that was prepared for the pod."""

        async def unprepare() -> None:
            await self._context.node.preparation.unprepare(self._context.uid)

        await self._context.retry(unprepare, well_known.FAILED_UNPREPARE_REASON)
        self._log_claims("unprepared")

    def _log_claims(self, what: str) -> None:
        pod = self._context.pod
        for claim in pod_claims.used_claims(pod):
            node = self._context.node.node
            log.info("claim %s of pod %s is %s on node %s", claim, pod.metadata.key, what, node)

    async def _prepare_claims(self) -> ClaimsOfPod:
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._warn_of_slow_driver)
        try:
            return await self._context.node.preparation.prepare(self._context.pod)
        finally:
            slow.cancel()

    def _warn_of_slow_driver(self) -> None:
        if waiting := self._context.node.preparation.waits_for(self._context.uid):
            self._context.record_warning(
                "SlowPrepareDynamicResources",
                f"{waiting} after {SLOW_SECONDS:.0f} s; it is given up after {CALL_SECONDS:.0f} s",
            )

    async def _make_volumes(self) -> dict[str, PreparedVolume]:
        node, state = self._context.node, self._context.state
        if node.runtime.uses_host_user_id:
            state.host_user_id = await self._host_user_id()
        ids = None
        pod, allows_privileged = self._context.pod, node.runtime_config.allows_privileged
        if not security_profiles.has_host_users(pod, allows_privileged=allows_privileged):
            ids = node.runtime.host_ids(state.host_user_id)
        volumes = Volumes(node.client, node.folder, node.runtime_config.allows_host, ids)
        return await volumes.prepare(pod)

    async def _host_user_id(self) -> int | None:
        """Return the user that an admin chose for the pod's namespace, or None.

        Raises ContainerConfigError for a value that is no ordinary user.
        """
        name = self._context.pod.metadata.namespace
        namespace = await self._context.node.client.get(kinds.NAMESPACE, name)
        annotation = well_known.HOST_USER_ID_ANNOTATION
        text = (namespace["metadata"].get("annotations") or {}).get(annotation)
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,10}", text) or not MIN_USER <= int(text) <= MAX_USER:
            raise ContainerConfigError(
                f"namespace {name}: metadata.annotations[{annotation}] must be a number from "
                f"{MIN_USER} to {MAX_USER}"
            )
        return int(text)
