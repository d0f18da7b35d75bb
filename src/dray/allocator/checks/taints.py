"""Device taints: those of slices and of DeviceTaintRules, and which of them a request tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api import well_known
from dray.api.semantics.tolerations import is_tolerated, tolerates
from dray.api.types.dra import DeviceTaint, DeviceTaintRule, DeviceToleration

_PREVENTING = (well_known.NO_SCHEDULE, well_known.NO_EXECUTE)


def rules_for_pool(
    driver: str, pool: str, rules: Iterable[DeviceTaintRule]
) -> list[DeviceTaintRule]:
    """Return the rules that may select a device of the pool."""
    return [rule for rule in rules if _selects_pool(rule, driver, pool)]


def with_rules(
    taints: Sequence[DeviceTaint], device: str, rules: Iterable[DeviceTaintRule]
) -> tuple[DeviceTaint, ...]:
    """Return a device's own taints, then those that the rules of its pool add."""
    added = [rule.spec.taint for rule in rules if _selects_device(rule, device)]
    return (*taints, *added)


def prevents_allocation(taint: DeviceTaint) -> bool:
    """Return whether a taint prevents allocation; unknown effects and None do not."""
    return taint.effect in _PREVENTING


def first_untolerated(
    taints: Iterable[DeviceTaint], tolerations: Sequence[DeviceToleration]
) -> DeviceTaint | None:
    """Return the first taint that prevents an allocation, or None."""
    for taint in taints:
        if prevents_allocation(taint) and not is_tolerated(taint, tolerations):
            return taint
    return None


def tolerated_seconds(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> int | None:
    """Return how long consumers may keep a device after it was tainted, or None for ever.

    As pkg/controller/devicetainteviction, claimEvictionTime: the shortest toleration decides.
    """
    if taint.effect != well_known.NO_EXECUTE:
        return None
    matching = [
        toleration
        for toleration in tolerations
        if toleration.effect == well_known.NO_EXECUTE and tolerates(toleration, taint)
    ]
    if any(toleration.toleration_seconds is None for toleration in matching):
        return None
    return min((max(toleration.toleration_seconds or 0, 0) for toleration in matching), default=0)


def _selects_pool(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in (None, driver) and selector.pool in (None, pool))


def _selects_device(rule: DeviceTaintRule, device: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device)
