"""The options of `dray plan` that change the cluster on paper."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from dray.allocator.search import device_order
from dray.cli.lazy_group import completer


class WhatIfOptions(NamedTuple):
    """The values of the options: everything that is different."""

    add: tuple[str, ...] = ()
    add_like: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    policy: str | None = None
    feature_gates: str = ""

    @property
    def are_given(self) -> bool:
        return self != WhatIfOptions()


_OPTIONS = (
    click.option(
        "--add",
        multiple=True,
        metavar="FLEET[:N]|FILE",
        help="With machines of a simulated fleet, N of each kind, or those of a file.",
    ),
    click.option(
        "--add-like",
        multiple=True,
        metavar="NODE[:N]",
        help="With N copies of a node and its devices, empty and healthy.",
    ),
    click.option(
        "--remove",
        multiple=True,
        metavar="NODE",
        help="Without a node, its devices and its pods.",
        shell_complete=completer("nodes"),
    ),
    click.option(
        "--drain",
        multiple=True,
        metavar="NODE",
        help="With a node cordoned and its pods evicted.",
        shell_complete=completer("nodes"),
    ),
    click.option(
        "--taint",
        multiple=True,
        metavar="NODE=KEY[=VALUE]:EFFECT",
        help="With one more taint on a node.",
    ),
    click.option(
        "--fail", multiple=True, metavar="NODE/DEVICE", help="With a device that has failed."
    ),
    click.option("--without", multiple=True, metavar="pod/NAME", help="Without a pod."),
    click.option(
        "--policy",
        type=click.Choice(sorted(device_order.BY_NAME)),
        help="With another policy of the scheduler.",
    ),
    click.option(
        "--feature-gates",
        default="",
        metavar="A=true,B=false",
        help="With other feature gates.",
    ),
)


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command receives them as `what_if`."""

    @functools.wraps(function)
    def wrapped(**given: Any) -> Any:
        what_if = WhatIfOptions(**{name: given.pop(name) for name in WhatIfOptions._fields})
        return function(what_if=what_if, **given)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
