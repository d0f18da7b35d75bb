"""Writes docs/performance.md from bench/results: `python -m tools.make_performance`.

The figures come from `tools.compare_allocators`. A test holds the page against them.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from tools import compare_allocators

TARGET = Path(__file__).parents[1] / "docs" / "performance.md"
HEAD = """# Performance

How fast the allocator is beside that of Kubernetes, on the same scenarios, in one run. Each claim
goes to the first node with room after the node that was used last. That is the kindest case for
Kubernetes, whose allocator then often stops at the first node; kube-scheduler asks more nodes.

The scenarios S1 to S7 have one feature each, and up to 5,000 nodes. The others are random:
`dray bench allocate --family taints --seed 2` makes one, `--write FILE` keeps it. A family
uses one feature of DRA, `mixed` and `mixed-alpha` several of them. The seed decides how many nodes
and claims there are and how much they differ: from one model for all to nodes that are all
different.

Answers are compared one by one: both allocators place every claim on the same node and devices.

"""
TAIL = """
## Measure it yourself

`make bench` runs all benchmarks, and says where one is slower than in the last recorded run
(`bench/results/recorded.json`). Its figures are divided by those of a bare Python loop in the same
run, so that machines can be compared. `python -m tools.compare_allocators --go PROGRAM` makes the
table above; its first lines say what PROGRAM is.
"""


def page() -> str:
    recorded = json.loads(compare_allocators.TARGET.read_bytes())
    machine, rows = recorded["machine"], recorded["rows"]
    ratios = [row["ratio"] for row in rows]
    busy = (
        "" if machine["load"] <= machine["cores"] else " **The machine was busy with other work.**"
    )
    summary = (
        f"{machine['cores']} cores, Python {machine['python']}, best of {machine['rounds']} runs "
        f"each, in turn. Median of the ratios: {statistics.median(ratios):.1f}; "
        f"the lowest: {min(ratios):.2f}.{busy}\n\n"
    )
    header = [
        "| scenario | nodes | devices | claims | placed | dray, claims/s | Go, claims/s | ratio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    table = "\n".join([*header, *map(_line, rows)]) + "\n"
    return HEAD + summary + table + _profiles(rows) + TAIL


def _line(row: dict[str, Any]) -> str:
    sizes = " | ".join(f"{row[name]:,}" for name in ("nodes", "devices", "claims", "placed"))
    return f"| {row['scenario']} | {sizes} | {row['dray']:,} | {row['go']:,} | {row['ratio']:.2f} |"


def _profiles(rows: list[dict[str, Any]]) -> str:
    slow = [row for row in rows if "profile" in row]
    if not slow:
        return ""
    lines = [
        f"- {row['scenario']} ({row['ratio']:.2f}): {', '.join(row['profile'])}" for row in slow
    ]
    head = (
        f"\n## Where the ratio is below {compare_allocators.PROFILED_BELOW:g}\n\n"
        "The parts of the allocator that take most of the time there, each with what it calls:\n\n"
    )
    return head + "\n".join(lines) + "\n"


def main() -> None:
    TARGET.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
