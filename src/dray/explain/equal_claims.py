"""Explain claims with equal requests once: only their names differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import rejections
from dray.api.ids import ClaimKey
from dray.api.types.dra import ResourceClaim
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.suggestions.changes import Combined, DropClaim, SuggestedChange

_encode = msgspec.msgpack.encode


class ClaimExplanations:
    """The explanations of the claims of one cluster, which must not change meanwhile."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[Sequence[ResourceClaim], Explanation]] = {}

    def explain(
        self,
        cluster: ClusterInventory,
        claims: Sequence[ResourceClaim],
        nodes: Sequence[str] | None,
        combine: int,
        consumers: Mapping[ClaimKey, tuple[str, ...]],
    ) -> Explanation:
        """Return what `claim_explanation.explain` returns, made once for equal requests."""

        def made() -> Explanation:
            return claim_explanation.explain(
                cluster,
                claims,
                new_share_id=lambda: "new",
                nodes=nodes,
                combine=combine,
                consumers=consumers,
            )

        if any(claim.status.allocation is not None for claim in claims):
            return made()
        requests = tuple(_encode(claim.spec) for claim in claims)
        key = requests, None if nodes is None else tuple(nodes), combine
        if key not in self._made:
            self._made[key] = claims, made()
        explained, explanation = self._made[key]
        return explanation if explained is claims else _renamed(explanation, explained, claims)


def _renamed(
    explanation: Explanation, explained: Sequence[ResourceClaim], claims: Sequence[ResourceClaim]
) -> Explanation:
    """Return the explanation of claims as that of others with the same requests."""
    keys = {old.key: new.key for old, new in zip(explained, claims, strict=True)}
    return msgspec.structs.replace(
        explanation,
        claims=tuple(keys[key] for key in explanation.claims),
        devices=tuple(
            msgspec.structs.replace(picked, claim=keys[picked.claim])
            for picked in explanation.devices
        ),
        changes=tuple(_renamed_change(change, keys) for change in explanation.changes),
        specs={claim.key: claim for claim in claims} if explanation.specs else {},
        message=_renamed_message(explanation, explained, claims),
    )


def _renamed_change(change: SuggestedChange, keys: Mapping[ClaimKey, ClaimKey]) -> SuggestedChange:
    match change:
        case DropClaim(name=name):
            return msgspec.structs.replace(change, name=keys[name])
        case Combined(parts=parts):
            renamed = tuple(_renamed_change(part, keys) for part in parts)
            return msgspec.structs.replace(change, parts=renamed)
    return change


def _renamed_message(
    explanation: Explanation, explained: Sequence[ResourceClaim], claims: Sequence[ResourceClaim]
) -> str:
    """Return an error's message, which may begin with the name of the claim at fault."""
    message = explanation.message
    if explanation.outcome is Outcome.FAILED:
        for old, new in zip(explained, claims, strict=True):
            beginning = f"claim {rejections.object_reference(old)}"
            rest = message.removeprefix(beginning)
            if rest != message and rest[:1] in (",", ":"):
                return f"claim {rejections.object_reference(new)}{rest}"
    return message
