"""ResourceQuota: what an object charges, and whether a quota has room for it.

As apiserver, admission/plugin/resourcequota.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dray.api.admission.refusals import Refused
from dray.api.formats import quantity
from dray.api.semantics import pod_resources
from dray.api.semantics import quota as counting
from dray.api.semantics.pod_resources import Amounts
from dray.api.semantics.quota import ExtendedResources
from dray.api.types.core import ResourceQuota
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import Pod


class Charge(NamedTuple):
    """The charge of an object, and the quotas and names that count it."""

    amounts: Amounts
    concerns: Callable[[ResourceQuota], bool]
    counts: Callable[[str], bool]
    missing: Callable[[Iterable[str]], str | None] = lambda _names: None


def of_pod(pod: Pod, now: datetime.datetime) -> Charge:
    return Charge(
        counting.pod_charges(pod, now),
        lambda quota: counting.concerns_pod(quota, pod),
        counting.concerns_pods,
        lambda names: counting.missing_statements(pod, names),
    )


def of_claim(
    claim: ResourceClaim, extended: ExtendedResources, pod_charges: Amounts | None = None
) -> Charge:
    """Return the charge of a claim; `pod_charges` are those of the pod it was made for."""
    amounts = counting.claim_charges(claim, extended, pod_charges)
    return unscoped(amounts, lambda name: counting.concerns_claims(name, extended))


def unscoped(amounts: Amounts, counts: Callable[[str], bool]) -> Charge:
    """Return the charge of an object that is no pod: quotas with scopes do not count it."""

    def concerns(quota: ResourceQuota) -> bool:
        if quota.spec.scopes or quota.spec.scope_selector:
            return False
        return any(map(counts, quota.status.hard))

    return Charge(amounts, concerns, counts)


def usage_with(quota: ResourceQuota, charge: Charge, before: Charge | None = None) -> Amounts:
    """Return the usage that changes with a charge, which replaces the one of `before`.

    Raises Refused if the quota has no room for it.
    """
    if not charge.concerns(quota):
        return {}
    _check_countable(quota, charge)
    amounts = charge.amounts
    if before and before.concerns(quota):
        amounts = difference(amounts, before.amounts)
    hard = quota.status.hard
    requested = {
        name: amount for name, amount in amounts.items() if name in hard and amount.sign() > 0
    }
    return _total(quota, requested) if requested else {}


def difference(amounts: Amounts, less: Amounts) -> Amounts:
    """Subtract amounts, never below zero."""
    left = {name: amount - less.get(name, quantity.ZERO) for name, amount in amounts.items()}
    return {name: max(amount, quantity.ZERO) for name, amount in left.items()}


def _check_countable(quota: ResourceQuota, charge: Charge) -> None:
    counted = sorted(filter(charge.counts, quota.status.hard))
    missing = charge.missing(counted)
    if missing:
        raise Refused(f"failed quota: {quota.metadata.name}: {missing}")
    if any(name not in quota.status.used for name in counted):
        raise Refused(
            f"status unknown for quota: {quota.metadata.name}, resources: {','.join(counted)}"
        )


def _total(quota: ResourceQuota, requested: Amounts) -> Amounts:
    used = pod_resources.parse_amounts(quota.status.used)
    hard = pod_resources.parse_amounts(quota.status.hard)
    total = {name: used.get(name, quantity.ZERO) + amount for name, amount in requested.items()}
    exceeded = sorted(name for name, amount in total.items() if amount > hard[name])
    if exceeded:
        raise Refused(
            f"exceeded quota: {quota.metadata.name}, requested: {_shown(requested, exceeded)}, "
            f"used: {_shown(used, exceeded)}, limited: {_shown(hard, exceeded)}"
        )
    return total


def _shown(amounts: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names if name in amounts)
