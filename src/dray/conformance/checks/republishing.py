"""The check that slices are published again, which runs beside the others: it may take long.

It comes after a restart, because Kubernetes' helper for drivers trusts slices that it has created
itself for another minute.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api import kinds
from dray.api.types.dra import ResourceSlice
from dray.conformance.check import CheckFailed, Group
from dray.conformance.site import Site, until

GROUP = Group("slices", "dynamic-resource-allocation/resourceslice: resourceslicecontroller.go")


@GROUP.check(
    "republished",
    "A slice that somebody deletes is published again.",
    "Watch the driver's slices, and publish again what is missing.",
    in_background=True,
)
async def republished(site: Site) -> None:
    await site.published()
    before = await site.slices()
    wanted = _devices(before)
    # Not one with counters: claims of their devices cannot be allocated without it.
    chosen = next(one for one in before if one.spec.devices and not one.spec.shared_counters)
    await site.client.delete(kinds.RESOURCE_SLICE, chosen.metadata.name)

    async def is_back() -> bool:
        return _devices(await site.slices()) == wanted

    try:
        await until(is_back, site.patience.restore_seconds)
    except TimeoutError:
        missing = sorted(wanted - _devices(await site.slices()))
        waited = f"{site.patience.restore_seconds:g} s after the deletion"
        raise CheckFailed(f"{waited} these devices were missing: {missing}") from None


def _devices(slices: Iterable[ResourceSlice]) -> set[tuple[str, str]]:
    return {(one.spec.pool.name, device.name) for one in slices for device in one.spec.devices}
