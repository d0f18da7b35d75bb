"""What the parts of one pod's worker share: the node, the pod's state, and its events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.api import kinds
from dray.api.types.pods import Pod
from dray.client import events
from dray.node.containers.container_attempts import Attempt
from dray.node.pods.context import NodeContext
from dray.node.pods.pod_state import PodState

DEFAULT_GRACE_SECONDS: Final = 30


@dataclass(frozen=True)
class PodContext:
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

    def container_folder(self, container: str) -> Path:
        return self.folder / "containers" / container

    def last_attempt(self, container: str) -> Attempt | None:
        """Return the latest start of a container as the disk has it, or None before the first."""
        return self.node.starter.last_attempt(self.container_folder(container))

    def record_event(self, reason: str, note: str) -> None:
        self._record(events.NORMAL, reason, note)

    def record_warning(self, reason: str, note: str) -> None:
        """Record a warning event, in place of the last one with the same reason."""
        self._record(events.WARNING, reason, note)

    def _record(self, type_: str, reason: str, note: str) -> None:
        reference = events.reference(kinds.POD, self.pod.metadata)
        replace = type_ == events.WARNING
        self.node.recorder.record(reference, type_, reason, note, replace=replace)
