"""Runs the benchmarks and compares with the last recorded run: `python -m tools.bench`.

Every figure is divided by the speed of a bare Python loop, measured right before and after it, so
that runs on different machines can be compared: a ratio says how much is done, or how often, in the
time of a million loops. The run is written to bench/results/last.json; it fails if a ratio is more
than a fifth worse than in bench/results/recorded.json. `--record` makes the run the recorded one;
commit it then. `--only NAME` runs a part. `dray bench node`, which needs a sandbox, is left out.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from tests.corpus.bench import generate

from dray import __version__
from dray.bench.families import catalog

RESULTS = Path(__file__).parents[1] / "bench" / "results"
RECORDED, LAST = RESULTS / "recorded.json", RESULTS / "last.json"
TOLERANCE = 0.2
ROUNDS = 3
"""Runs of each benchmark; the best ratio counts."""
_LOOP = 2_000_000
SCENARIOS = ("S1", "S2", "S3", "S4", "S5", "S7")


Figures = Mapping[str, float]
"""What a benchmark measured, by name; higher is better."""


class Benchmark(NamedTuple):
    """One command of `dray bench`, and how its figures are read from what it prints."""

    command: tuple[str, ...]
    read: Callable[[dict[str, Any]], Figures]
    rounds: int = ROUNDS


def benchmarks(folder: Path) -> dict[str, Benchmark]:
    found: dict[str, Benchmark] = {}
    for name in SCENARIOS:
        file = folder / f"{name}.json"
        file.write_text(json.dumps(generate.make(name)), "utf-8")
        found[f"allocate {name}"] = _allocate(str(file))
    for name in catalog.NAMES:
        found[f"allocate {name}"] = _allocate("--family", name, "--seed", "1")
    return found | {
        "cel": Benchmark(("cel",), _evaluations),
        "churn": Benchmark(("churn",), lambda printed: {"steps": printed["steps_per_s"]}),
        "startup": Benchmark(("startup", "--runs", "5"), _commands, rounds=1),
        "explain": Benchmark(("explain", "--runs", "2"), _explanations, rounds=1),
        "exporter": Benchmark(("exporter", "--seconds", "10"), _exports, rounds=1),
        "apiserver": Benchmark(("apiserver",), _requests, rounds=1),
        "cluster": Benchmark(("cluster",), _pods, rounds=1),
    }


def _allocate(*arguments: str) -> Benchmark:
    command = ("allocate", *arguments, "--start", "rotate")
    return Benchmark(command, lambda printed: {"claims": printed["claims_per_s"]})


def _evaluations(printed: dict[str, Any]) -> Figures:
    own = printed["measurements"][:2]
    return {found["name"]: 1 / found["microseconds"] for found in own}


def _commands(printed: dict[str, Any]) -> Figures:
    return {name: 1 / value for name, value in printed.items() if name.endswith("_cpu_s")}


def _explanations(printed: dict[str, Any]) -> Figures:
    return {name: 1 / printed[f"{name}_cpu_s"] for name in ("selector", "count", "constraint")}


def _exports(printed: dict[str, Any]) -> Figures:
    return {name: 1 / printed[f"{name}_s"] for name in ("ready", "scrape")}


def _requests(printed: dict[str, Any]) -> Figures:
    return {
        found["name"]: found["value"] if found["at_least"] else 1 / found["value"]
        for found in printed["measurements"]
    }


def _pods(printed: dict[str, Any]) -> Figures:
    return {name: printed[f"{name}_per_s"] for name in ("pods", "created", "refused")}


@click.command()
@click.option("--only", multiple=True, help="The name of a benchmark; several times for more.")
@click.option("--record", is_flag=True, help="Make this run the one that others are held against.")
def main(only: tuple[str, ...], record: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chosen = benchmarks(Path(folder))
        for name in only:
            if name not in chosen:
                raise click.UsageError(f"there is no benchmark {name}: {', '.join(chosen)}")
        ratios: dict[str, float] = {}
        for name in only or chosen:
            ratios |= {f"{name}: {what}": ratio for what, ratio in run(chosen[name]).items()}
            click.echo(f"{name} done")
    machine = {"cores": os.cpu_count(), "system": platform.platform(), "cpu": _cpu()}
    versions = {"dray": __version__, "python": platform.python_version()}
    content = {"machine": machine, "versions": versions, "ratios": ratios}
    RESULTS.mkdir(parents=True, exist_ok=True)
    LAST.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    if record:
        RECORDED.write_text(LAST.read_text("utf-8"), "utf-8")
        return
    if not RECORDED.exists():
        sys.exit("there is no recorded run yet: --record makes this one it")
    before = json.loads(RECORDED.read_bytes())["ratios"]
    worse = list(losses(before, ratios))
    if worse:
        sys.exit("slower than in the recorded run:\n  " + "\n  ".join(worse))


def losses(before: Figures, after: Figures) -> Iterator[str]:
    """Yield a line for each ratio that is worse by more than the tolerance."""
    for name, ratio in after.items():
        if name in before and ratio < (1 - TOLERANCE) * before[name]:
            yield f"{name}: {ratio / before[name] - 1:+.0%}"


def run(benchmark: Benchmark) -> Figures:
    """Return the best ratio of each figure to the speed of a bare loop around it."""
    best: dict[str, float] = {}
    for _ in range(benchmark.rounds):
        before = loops_per_s()
        done = subprocess.run(
            [sys.executable, "-m", "dray", "bench", *benchmark.command, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        speed = (before + loops_per_s()) / 2 / 1_000_000
        for name, figure in benchmark.read(json.loads(done.stdout)).items():
            best[name] = max(best.get(name, 0.0), figure / speed)
    return best


def loops_per_s() -> float:
    """Return how often a bare Python loop runs in a second."""
    began = time.perf_counter()
    total = 0
    for number in range(_LOOP):
        total += number
    return _LOOP / (time.perf_counter() - began)


def _cpu() -> str:
    """Return the name of the processor, or its architecture where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


if __name__ == "__main__":
    main()
