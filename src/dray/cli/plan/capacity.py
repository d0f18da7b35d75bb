"""`dray plan capacity`: how many more pods fit, and what is the limit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.inputs import cluster_objects, manifests
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.cli.session import connection
from dray.cli.session.connection import Target

if TYPE_CHECKING:
    from dray.planner.capacity.report import CapacityReport


@click.command("capacity", cls=DrayCommand)
@connection.options
@manifests.files_option()
@cluster_objects.option
@formats.option
def capacity(target: Target, files: tuple[str, ...], against: str, format: OutputFormat) -> None:
    """Count how many more pods fit, and say which check is the limit.

    With -f, one pod of each object in the files is counted: a Pod, a workload, or a
    ResourceClaim or ResourceClaimTemplate that none of these uses. Otherwise pods with
    one device of each DeviceClass are, and free devices that no pod of the cluster could
    use and the cards with partitions are shown too. Nothing is written to the cluster.
    """
    from dray.cli.plan import capacity_text

    if format.name == "name":
        raise WrongUsage("-o name is for objects; use -o json, yaml or wide.")
    found = _report(target, files, against)
    if format.is_table:
        capacity_text.show(found, by_class=not files, is_wide=format.is_wide)
    else:
        formats.show_document(capacity_text.document(found), format)
    if files and not all(item.pods for item in found.capacities):
        sys.exit(1)


def _report(target: Target, files: tuple[str, ...], against: str) -> CapacityReport:
    from dray.cli.plan import capacity_inputs, plan_inputs
    from dray.planner.capacity import report

    cluster = plan_inputs.load(against, target)
    if not files:
        return report.of_classes(cluster)
    namespace = plan_inputs.namespace_of(against, target)
    return report.of_pods(*capacity_inputs.counted_pods(files, cluster, namespace))
