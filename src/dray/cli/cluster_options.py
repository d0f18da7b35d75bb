"""The options that choose a cluster; they may stand before or behind the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dray.cli import lazy_group

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--kubeconfig", default="", metavar="FILE", help="Kubeconfig file of the cluster."
    ),
    click.option(
        "--context",
        default="",
        help="A context of the kubeconfig.",
        shell_complete=lazy_group.completer("contexts"),
    ),
    click.option(
        "--namespace",
        "-n",
        default="",
        help="Instead of the context's namespace.",
        shell_complete=lazy_group.completer("namespaces"),
    ),
)


def added(function: Decorated) -> Decorated:
    """Add --kubeconfig, --context and --namespace to a command, as a decorator."""
    # Decorators of a function apply from the last to the first.
    in_order = _OPTIONS if isinstance(function, click.Command) else _OPTIONS[::-1]
    for option in in_order:
        function = option(function)
    return function
