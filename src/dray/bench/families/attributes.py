"""Families about attributes: selectors that read many, lists, derived ones, constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.bench.families import objects
from dray.bench.families.draw import Draw, Parts
from dray.bench.families.objects import Object

_VENDORS = ("acme", "globex", "initech", "umbrella")


def many_attributes(draw: Draw) -> Parts:
    """Devices with two dozen attributes, and selectors that read up to eight of them."""
    published = [f"attribute{number}" for number in range(draw.randint(14, 22))]

    def contents() -> list[Object]:
        common: dict[str, Any] = {name: draw.randint(0, 3) for name in published}
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(
                    **common | {name: draw.randint(0, 3) for name in draw.some(published, 0, 3)},
                    vendor=draw.choice(_VENDORS),
                    firmware=(draw.randint(1, 3), draw.randint(0, 9), 0),
                ),
                capacity={"memory": {"value": f"{draw.randint(8, 96)}Gi"}},
            )
            for number in range(draw.randint(2, 8))
        ]
        return [{"devices": devices}]

    def wanted() -> Object:
        parts = [
            f"{draw.own(name)} {draw.choice(('!=', '>=', '<='))} {draw.randint(0, 3)}"
            for name in draw.some(published, 2, 6)
        ]
        parts.append(f'{draw.own("vendor")} in ["{draw.choice(_VENDORS)}", "acme"]')
        parts.append(f'{draw.own("firmware")}.compareTo(semver("{draw.randint(1, 2)}.5.0")) >= 0')
        either = (
            f'({" || ".join(parts)}) && {draw.capacity("memory")}.isGreaterThan(quantity("9Gi"))'
        )
        selectors = [either if draw.chance(0.3) else " && ".join(draw.some(parts, 1, 3))]
        return _one_request(draw, *selectors, *draw.some(parts, 0, 1))

    return draw.with_one_class(draw.pools(contents), wanted)


def unique_values(draw: Draw) -> Parts:
    """Devices that all differ, in serial number, firmware and memory, and selectors on these."""
    serials = iter(range(1 << 30))

    def contents() -> list[Object]:
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(
                    uuid=f"GPU-{draw.getrandbits(64):016x}",
                    serial=next(serials),
                    firmware=(draw.randint(1, 9), draw.randint(0, 99), draw.randint(0, 99)),
                    bus=f"{draw.randint(0, 255):02x}:00.{number % 8}",
                ),
                capacity={"memory": {"value": f"{draw.randint(16_000, 96_000)}Mi"}},
            )
            for number in range(draw.randint(2, 8))
        ]
        return [{"devices": devices}]

    def wanted() -> Object:
        major, digit = draw.randint(1, 6), draw.choice("0123456789abcdef")
        parts = [
            f"{draw.own('serial')} % {draw.randint(2, 5)} == 0",
            f'{draw.own("uuid")}.startsWith("GPU-") && {draw.own("uuid")}.contains("{digit}")',
            f'{draw.own("firmware")}.isGreaterThan(semver("{major}.{draw.randint(0, 99)}.0"))',
            f'{draw.capacity("memory")}.compareTo(quantity("{draw.randint(16, 60)}Gi")) >= 0',
            f'{draw.own("bus")} != "00:00.0"',
        ]
        return _one_request(draw, " && ".join(draw.some(parts, 1, 3)))

    return draw.with_one_class(draw.pools(contents, all_differ=True), wanted)


def list_attributes(draw: Draw) -> Parts:
    """Lists of links and speeds, read by selectors and compared by constraints."""
    links = [f"link-{number}" for number in range(draw.randint(3, 8))]

    def contents() -> list[Object]:
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(
                    links=draw.some(links, 1, 3),
                    speeds=draw.some((100, 200, 400, 800), 1, 3),
                    index=number,
                ),
            )
            for number in range(draw.randint(3, 8))
        ]
        return [{"devices": devices}]

    def wanted() -> Object:
        selectors = [
            f'{draw.own("links")}.includes("{draw.choice(links)}")',
            f"{draw.own('speeds')}.includes({draw.choice((100, 200, 400, 800))})",
        ]
        return _constrained(draw, ("links", "speeds", "index"), draw.some(selectors, 0, 1))

    return draw.with_one_class(draw.pools(contents), wanted)


def derived_attributes(draw: Draw) -> Parts:
    """Constraints on attributes that an expression of the claim computes."""

    def wanted() -> Object:
        expression = draw.choice(
            (
                f'{draw.own("numa")} == 0 ? "left" : "right"',
                f'{draw.own("switch")} + "-" + {draw.own("rail")}',
                f"{draw.own('numa')} * 2 + 1",
                f'{draw.own("rail")}.startsWith("rail-1")',
            )
        )
        name = draw.qualified("derived")
        derived = [{"name": name, "expression": expression}]
        kind = "matchAttribute" if draw.chance(0.75) else "distinctAttribute"
        count = draw.randint(1, 3) if kind == "matchAttribute" else 2
        wanted = objects.asked(draw.family, count=count, derivedAttributes=derived)
        names = [draw.family, f"{draw.family}-more"][: draw.choice((1, 1, 1, 2))]
        return objects.claim_spec(
            *[objects.request(found, wanted) for found in names],
            constraints=[{"requests": names, kind: name}],
        )

    return draw.with_one_class(_topology(draw), wanted)


def match_attribute(draw: Draw) -> Parts:
    """Devices of one switch, rail or NUMA node."""
    slices = _topology(draw)
    return draw.with_one_class(
        slices, lambda: _constrained(draw, ("switch", "rail", "numa"), (), distinct=0)
    )


def distinct_attribute(draw: Draw) -> Parts:
    """Devices of different switches, rails or NUMA nodes."""
    slices = _topology(draw)
    return draw.with_one_class(
        slices, lambda: _constrained(draw, ("switch", "rail", "numa"), (), distinct=0.8)
    )


def _topology(draw: Draw) -> list[Object]:
    def contents() -> list[Object]:
        rack = draw.randint(0, 1 << 20)
        switches, rails = draw.randint(1, 4), draw.randint(2, 8)
        devices = [
            objects.device(
                f"device-{number}",
                objects.attributes(
                    switch=f"{rack}-{draw.randrange(switches)}",
                    rail=f"rail-{number % rails}",
                    numa=draw.randint(0, 1),
                ),
            )
            for number in range(draw.randint(6, 12))
        ]
        return [{"devices": devices}]

    return draw.pools(contents)


def _constrained(
    draw: Draw, compared: Sequence[str], selectors: Sequence[str], *, distinct: float = 0.2
) -> Object:
    """Return a claim of one or two requests with constraints on some of the attributes."""
    names = [draw.family, f"{draw.family}-more"][: draw.choice((1, 1, 1, 2))]
    constraints = []
    for attribute in draw.some(compared, 1, 2):
        kind = "distinctAttribute" if draw.chance(distinct) else "matchAttribute"
        constraints.append({"requests": names, kind: draw.qualified(attribute)})
    return objects.claim_spec(
        *[
            objects.request(
                name, objects.asked(draw.family, *selectors, count=draw.choice((1, 1, 2, 2, 3)))
            )
            for name in names
        ],
        constraints=constraints,
    )


def _one_request(draw: Draw, *selectors: str) -> Object:
    wanted = objects.asked(draw.family, *selectors, count=draw.choice((1, 1, 1, 2)))
    return objects.claim_spec(objects.request(draw.family, wanted))
