"""The option that names the cluster or file to evaluate against. Imports nothing that reads it."""

from __future__ import annotations

import click

option = click.option(
    "--against",
    default="",
    metavar="FILE|DIR|FLEET|CONTEXT",
    help="A dump or snapshot, a directory of them, a simulated fleet, or a kubeconfig context.",
)
