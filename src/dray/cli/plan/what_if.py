"""Answer of `dray plan` with changes: the cluster before and after them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dray.cli.command_errors import WrongUsage
from dray.cli.output.formats import OutputFormat
from dray.cli.plan import plan_inputs, what_if_options, what_if_output
from dray.cli.plan.what_if_options import WhatIfOptions
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.submitted_pods import Submission
from dray.planner.what_if import compare

_COUNT_SECONDS = 1.0
"""The time that counting the room of all classes may take, before and after together."""


def answer(
    cluster: ClusterModel,
    given: WhatIfOptions,
    files: Sequence[str],
    namespace: str,
    format: OutputFormat,
) -> bool:
    """Print what the changes do to the cluster and to the pods of files; return whether it is good.

    Raises WrongUsage for changes that cannot be made, or that have no effect.
    """
    changed = what_if_options.change(cluster, given, namespace)
    before, after = (
        plan_inputs.submitted(files, each, namespace) if files else Submission(each, ())
        for each in (cluster, changed.cluster)
    )
    found = compare.compare(before, after, changed, policy=given.policy)
    if given.policy and not found.after.pods:
        raise WrongUsage(
            f"--policy {given.policy}: there is no pod to place",
            "Name pods with -f FILE, or a change that evicts some.",
        )
    deadline = time.monotonic() + _COUNT_SECONDS
    what_if_output.show(found, compare.room(found, lambda: time.monotonic() > deadline), format)
    return found.is_good
