"""The option that chooses the policy of a scheduler."""

from __future__ import annotations

import click

from dray.scheduling import policies

option = click.option(
    "--policy",
    type=click.Choice(policies.NAMES),
    help="Which nodes and devices pods get, of those where they fit.  [default: as Kubernetes]",
)
