"""Explains to users why claims cannot be allocated, for every way to start the scheduler."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.types.dra import ResourceClaim
from dray.explain import claim_explanation
from dray.explain.text import explanation_text
from dray.scheduler.status_reporting import Why

SAMPLE_SIZE = 64
"""The most nodes of a survey. Nothing is scheduled meanwhile, so it must not take long."""


def sampled(inventory: ClusterInventory) -> Why:
    """Return a function that explains claims in one line, from a sample of the nodes."""

    def why(claims: Sequence[ResourceClaim]) -> str:
        names = list(inventory.nodes)
        sample = _evenly_spaced(names)
        explanation = claim_explanation.explain(
            inventory, claims, new_share_id=lambda: str(uuid.uuid4()), nodes=sample, combine=1
        )
        text = explanation_text.summary(explanation)
        if not text or len(sample) == len(names):
            return text
        return f"Of {len(names)} nodes, {len(sample)} were looked at: {text}"

    return why


def _evenly_spaced(names: Sequence[str]) -> Sequence[str]:
    """Return every n-th name, at most SAMPLE_SIZE: neighbours are often the same hardware."""
    step = -(-len(names) // SAMPLE_SIZE)
    return names[:: step or 1]
