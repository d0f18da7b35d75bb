"""`python -m tools.e2e --binary PATH`: runs groups of specs and prints a table of the results."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.e2e import cluster, groups, reports, skips
from tools.e2e.groups import Group, Nodes
from tools.e2e.reports import GroupResult, Result
from tools.e2e.suite import Suite

NO_AGENTS = "nodes with containers need root and `unshare` (util-linux)"


def main() -> int:
    options = _parser().parse_args()
    suite = Suite(options.binary)
    folder = Path(options.output or tempfile.mkdtemp(prefix="dray-e2e-"))
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in suite.names() if re.search(options.focus, name)]
    chosen = [groups.named(name) for name in options.group] or groups.GROUPS
    results = []
    for group in chosen:
        selected = group.select(names)
        if options.list:
            print(f"## {group.title}", *selected, sep="\n")
        elif selected:
            results.append(_run(suite, group, selected, folder / group.name, options.shards))
            print(reports.table(results[-1:]), reports.details(results[-1:]), sep="\n", flush=True)
    if results:
        print(f"\n{reports.table(results)}\n\nLogs are in {folder}.")
    return int(any(result.failed for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.e2e", description=__doc__)
    parser.add_argument("--binary", type=Path, required=True, help="an e2e.test of Kubernetes 1.37")
    parser.add_argument(
        *("--group", "-g"),
        action="append",
        default=[],
        choices=[group.name for group in groups.GROUPS],
        help="only this group; may be given several times",
    )
    parser.add_argument("--focus", default="", metavar="REGEX", help="only specs with such a name")
    parser.add_argument("--list", action="store_true", help="print the names, run nothing")
    parser.add_argument(
        "--shards", type=int, default=1, help="clusters at once, each with a part of the specs"
    )
    parser.add_argument("--output", metavar="DIR", help="where logs and reports are kept")
    return parser


def _run(
    suite: Suite, group: Group, names: Sequence[str], folder: Path, shards: int
) -> GroupResult:
    result = GroupResult(group.title)
    result.skipped = {name: why for name in names if (why := skips.reason(name))}
    if group.nodes is Nodes.AGENTS and not cluster.can_run_agents():
        result.skipped |= {name: NO_AGENTS for name in names if name not in result.skipped}
    left = [name for name in names if name not in result.skipped]
    parts = [part for number in range(shards) if (part := left[number::shards])]

    def run_part(number: int) -> dict[str, Result]:
        place = folder / str(number)
        place.mkdir(parents=True)
        with cluster.running(group, place) as kubeconfig:
            return suite.run(parts[number], kubeconfig, place)

    with ThreadPoolExecutor(shards) as pool:
        found = {
            name: each
            for part in pool.map(run_part, range(len(parts)))
            for name, each in part.items()
        }
    result.results = {name: found[name] for name in left}
    return result


if __name__ == "__main__":
    sys.exit(main())
