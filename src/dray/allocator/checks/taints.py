"""Device taints: rules applied to what slices say, and which taints a request tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api import well_known
from dray.api.semantics.tolerations import is_tolerated, tolerates
from dray.api.types.dra import DeviceTaint, DeviceTaintRule, DeviceToleration

_PREVENTING = (well_known.NO_SCHEDULE, well_known.NO_EXECUTE)


def rules_for_pool(
    driver: str, pool: str, rules: Iterable[DeviceTaintRule]
) -> list[DeviceTaintRule]:
    """The rules that may concern a device of the pool."""
    return [rule for rule in rules if _concerns_pool(rule, driver, pool)]


def with_rules(
    taints: Sequence[DeviceTaint], device: str, rules: Iterable[DeviceTaintRule]
) -> tuple[DeviceTaint, ...]:
    """A device's own taints and those that the rules of its pool add, in order."""
    added = [rule.spec.taint for rule in rules if _concerns_device(rule, device)]
    return (*taints, *added)


def prevents_allocation(taint: DeviceTaint) -> bool:
    """Unknown effects and None do not."""
    return taint.effect in _PREVENTING


def first_untolerated(
    taints: Iterable[DeviceTaint], tolerations: Sequence[DeviceToleration]
) -> DeviceTaint | None:
    """The taint that forbids an allocation, if any."""
    for taint in taints:
        if prevents_allocation(taint) and not is_tolerated(taint, tolerations):
            return taint
    return None


def tolerated_seconds(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> int | None:
    """How long users of a device may stay after it got a taint; None for ever.

    As pkg/controller/devicetainteviction, claimEvictionTime: the shortest toleration decides.
    """
    if taint.effect != well_known.NO_EXECUTE:
        return None
    matching = [
        toleration
        for toleration in tolerations
        if toleration.effect == well_known.NO_EXECUTE and tolerates(toleration, taint)
    ]
    if any(each.toleration_seconds is None for each in matching):
        return None
    return min((max(each.toleration_seconds or 0, 0) for each in matching), default=0)


def _concerns_pool(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in (None, driver) and selector.pool in (None, pool))


def _concerns_device(rule: DeviceTaintRule, device: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device)
