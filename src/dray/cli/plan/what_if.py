"""`dray plan` with changes: what they do to a cluster, and to the pods of files."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Sequence

from dray.cli.command_errors import WrongUsage
from dray.cli.output.formats import OutputFormat
from dray.cli.plan import fit_answers, plan_inputs, what_if_changes, what_if_output
from dray.cli.plan.what_if_options import WhatIfOptions
from dray.cli.plan.what_if_output import WhatIfAnswer
from dray.cli.session import progress
from dray.cli.session.connection import Target
from dray.planner.submission import expansion
from dray.planner.what_if import compare
from dray.planner.what_if.compare import PodOutcome

_COUNT_SECONDS = 10.0
"""The time that counting the room of all classes may take, before and after together."""


def run(
    target: Target,
    files: Sequence[str],
    against: str,
    format: OutputFormat,
    given: WhatIfOptions,
) -> None:
    """Print a cluster before and after changes; exits with 1 if pods wait that should run.

    Raises WrongUsage for changes that cannot be made, or that have no effect.
    """
    cluster = plan_inputs.load(against, target)
    namespace = plan_inputs.namespace_of(against, target)
    changed = what_if_changes.apply(cluster, given, namespace)
    submit = (
        plan_inputs.submitter(files, changed.cluster.features, namespace)
        if files
        else functools.partial(expansion.expand, ())
    )
    before, after = submit(cluster), submit(changed.cluster)
    with progress.shown("Looking for nodes"):
        found = compare.compare(before, after, changed, policy=given.policy)
        if given.policy and not found.after.pods:
            raise WrongUsage(
                f"--policy {given.policy}: there is no pod to place",
                "Name pods with -f FILE, or a change that evicts some.",
            )
        deadline = time.monotonic() + _COUNT_SECONDS
        room = compare.room(found, lambda: time.monotonic() > deadline)
        asked = [
            compared.planned
            for compared in found.pods
            if compared.planned and (compared.is_submitted or compared.result is PodOutcome.STOPS)
        ]
        explained = fit_answers.answers(after.cluster, found.after, asked)
    what_if_output.show(WhatIfAnswer(found, room, explained), format)
    if not found.is_good:
        sys.exit(1)
