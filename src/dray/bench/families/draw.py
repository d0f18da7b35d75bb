"""The random numbers of a family, the nodes of its scenario, and how much may differ.

How many different nodes and claims there are is drawn first: a fleet of one model, whose answers
can be remembered, is as likely as one where no two nodes are alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from dray.bench.families import objects
from dray.bench.families.objects import Object

_Drawn = TypeVar("_Drawn")


class Parts(NamedTuple):
    """The part of a scenario that one family makes."""

    slices: list[Object]
    classes: list[Object]
    wanted: list[Object]
    """The device specs of the claims to place, in their order."""
    held: Sequence[tuple[Object, Object]] = ()
    """Device specs and allocations of claims that have their devices already."""


class Draw(random.Random):
    """Random numbers from a seed, for one family on the nodes of a scenario."""

    def __init__(self, seed: str, family: str, nodes: Sequence[Object], claims: int) -> None:
        super().__init__(seed)
        self.driver = f"{family}.example.com"
        """Families can share nodes: each has a driver of its own."""
        self.family = family
        self.nodes = [node["metadata"]["name"] for node in nodes]
        self.claims = claims
        self._kinds = self.choice((1, 3, 12, len(nodes)))
        self._signatures = self.choice((1, 4, 16, 64))

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def some(self, values: Sequence[_Drawn], least: int, most: int) -> list[_Drawn]:
        """Return some of the values, in their order."""
        chosen = self.sample(range(len(values)), min(self.randint(least, most), len(values)))
        return [values[index] for index in sorted(chosen)]

    def per_node(self, make: Callable[[], _Drawn], *, all_differ: bool = False) -> list[_Drawn]:
        """Return what each node has: one of a few kinds, or each its own."""
        nodes = len(self.nodes)
        return self._spread(make, nodes if all_differ else self._kinds, nodes)

    def per_claim(self, make: Callable[[], _Drawn]) -> list[_Drawn]:
        """Return what each claim asks for: one of some things, as the pods of Deployments do."""
        return self._spread(make, self._signatures, self.claims)

    def with_one_class(self, slices: list[Object], make: Callable[[], Object]) -> Parts:
        """Return slices, the class of all devices of the family, and claims that `make` returns."""
        device_class = objects.device_class(self.family, self.is_driver)
        return Parts(slices, [device_class], self.per_claim(make))

    def pools(
        self, make: Callable[[], Sequence[Object]], *, suffix: str = "", all_differ: bool = False
    ) -> list[Object]:
        """Return the slices of one pool for each node; `make` returns the contents of a pool.

        A `suffix` of their names tells several pools of a node apart.
        """
        of_nodes = self.per_node(make, all_differ=all_differ)
        return [
            resource_slice
            for name, contents in zip(self.nodes, of_nodes, strict=True)
            for resource_slice in objects.pool(
                self.driver, f"{name}{suffix}", *contents, nodeName=name
            )
        ]

    def own(self, attribute: str) -> str:
        """Return the CEL expression for an attribute of the family's driver."""
        return f'device.attributes["{self.driver}"].{attribute}'

    def capacity(self, name: str) -> str:
        """Return the CEL expression for a capacity of the family's driver."""
        return f'device.capacity["{self.driver}"].{name}'

    def qualified(self, attribute: str) -> str:
        return f"{self.driver}/{attribute}"

    @property
    def is_driver(self) -> str:
        """The selector for every device of the family."""
        return f'device.driver == "{self.driver}"'

    def _spread(self, make: Callable[[], _Drawn], kinds: int, places: int) -> list[_Drawn]:
        if kinds >= places:
            return [make() for _ in range(places)]
        made = [make() for _ in range(kinds)]
        return [self.choice(made) for _ in range(places)]


Family = Callable[[Draw], Parts]
