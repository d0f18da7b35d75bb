"""Explains to users why claims cannot be allocated, for every way to start the scheduler."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping, Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import node_scope
from dray.explain.suggestions.changes import DropClaim, SuggestedChange
from dray.explain.text import explanation_text
from dray.scheduler.explanation_cache import Why, Wording

SAMPLE_SIZE = 64
"""The most nodes of a survey. Nothing is scheduled meanwhile, so it must not take long."""
CACHED_WORDINGS = 16


def sampled(inventory: ClusterInventory) -> Why:
    """Return a function that explains claims in one line, from a sample of the nodes."""

    def why(pod: Pod, claims: Sequence[ResourceClaim]) -> Wording:
        nodes = [entry.node for entry in inventory.nodes.values() if entry.node is not None]
        names = node_scope.names_of(pod, nodes)
        sample = _evenly_spaced(names)
        explanation = claim_explanation.explain(
            inventory, claims, new_share_id=lambda: str(uuid.uuid4()), nodes=sample, combine=1
        )
        prefix = ""
        if len(sample) < len(names):
            prefix = f"Of {len(names)} nodes, {len(sample)} were looked at: "
        return _wording(explanation, [claim.key for claim in claims], prefix)

    return why


def _wording(explanation: Explanation, explained: Sequence[ClaimKey], prefix: str) -> Wording:
    # The text without names is the same for every pod that asks for the same.
    @functools.lru_cache(maxsize=CACHED_WORDINGS)
    def wording(names: tuple[ClaimKey, ...]) -> str:
        # Claims that fit: the pod waits for something else, which kube-scheduler's message names.
        if explanation.outcome in (Outcome.FITS, Outcome.ALLOCATED):
            return ""
        renamed = _renamed(explanation, dict(zip(explained, names, strict=True)))
        text = explanation_text.summary(renamed)
        return f"{prefix}{text}" if text else ""

    return wording


def _renamed(explanation: Explanation, names: Mapping[ClaimKey, ClaimKey]) -> Explanation:
    """Return the explanation for other claims with the same requests."""

    def renamed(change: SuggestedChange) -> SuggestedChange:
        if isinstance(change, DropClaim):
            return msgspec.structs.replace(change, name=names[change.name])
        return change

    return msgspec.structs.replace(
        explanation,
        claims=tuple(names[key] for key in explanation.claims),
        changes=tuple(map(renamed, explanation.changes)),
    )


def _evenly_spaced(names: Sequence[str]) -> Sequence[str]:
    """Return every n-th name, at most SAMPLE_SIZE: neighbours are often the same hardware."""
    step = -(-len(names) // SAMPLE_SIZE)
    return names[:: step or 1]
