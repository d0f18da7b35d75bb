"""Draws docs/policy-comparison.svg: what each policy allocates of the sample trace.

`python -m tools.make_policy_chart`, or `make generate`. A test holds the file against the code.
"""

from __future__ import annotations

from pathlib import Path

from dray.planner.policies.by_name import POLICIES
from dray.planner.replay import chart, runs, summaries
from dray.planner.traces import openb

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "policy-comparison.svg"
SAMPLE = ROOT / "examples" / "traces"
SEEDS = range(42, 52)


def sample() -> openb.Trace:
    """Return the trace of the examples."""
    pods, nodes = "openb_sample_pod_list.csv", "openb_sample_node_list.csv"
    return openb.Trace(
        openb.read_nodes((SAMPLE / nodes).read_text("utf-8"), nodes),
        openb.read_pods((SAMPLE / pods).read_text("utf-8"), pods),
    )


def drawn() -> str:
    """Return the chart."""
    trace = sample()
    made = [runs.replay(trace, policy, seed) for policy in POLICIES for seed in SEEDS]
    return chart.against_demand(summaries.mean_curves(made), "GPUs")


if __name__ == "__main__":
    TARGET.write_text(drawn(), "utf-8")
