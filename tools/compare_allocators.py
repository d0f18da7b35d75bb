"""Places the same scenarios with dray and with Kubernetes' allocator, and records both.

`python -m tools.compare_allocators --go PROGRAM` runs both in turn on each scenario: those of
`tests.corpus.bench.generate`, and the families of `dray bench allocate --family` with several
seeds. It fails at the first answer that differs, and writes bench/results/compared_with_go.json,
from which `tools.make_performance` makes the table in docs/performance.md.

PROGRAM is Kubernetes' allocator with a main function around it: `PROGRAM rotate FILE` places the
claims of a scenario file, each on the first node with room after the node used last, which is the
kindest case for it, and prints `N claims/s`. If the variable ANSWERS names a folder, it writes its
answers there as NAME.rotate.json, in the form of `dray bench allocate --out`.
"""

from __future__ import annotations

import cProfile
import json
import os
import platform
import pstats
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from tests.corpus.bench import generate

from dray import __version__
from dray.allocator import scenarios
from dray.bench import allocate
from dray.bench.families import catalog

TARGET = Path(__file__).parents[1] / "bench" / "results" / "compared_with_go.json"
SCENARIOS = ("S1", "S2", "S3", "S4", "S5", "S7")
PROFILED_BELOW = 2.0
LEAST_RATE = 0.5
"""Kubernetes' allocator prints whole numbers: 0 stands for less than this."""
_CLAIMS_PER_S = re.compile(r"([\d.]+) claims/s")

Row = dict[str, Any]


@click.command()
@click.option("--go", "program", required=True, help="Kubernetes' allocator, built as above.")
@click.option("--seeds", default=3, show_default=True, help="Seeds of each family, from 1 on.")
@click.option("--rounds", default=3, show_default=True, help="Runs of each; the best one counts.")
@click.option("--only", multiple=True, help="A scenario or a family; several times for more.")
@click.option("--out", type=click.Path(path_type=Path), default=TARGET, help="The file to write.")
def main(program: str, seeds: int, rounds: int, only: tuple[str, ...], out: Path) -> None:
    rows, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for file in _files(Path(folder), seeds, only):
            rows.append(compare(program, file, rounds))
            click.echo(
                "{scenario:<28} dray {dray:>8,} Go {go:>8,} {ratio:>8.2f}".format(**rows[-1])
            )
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "dray": __version__,
        "rounds": rounds,
        "load": round(max(load, os.getloadavg()[0])),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", "utf-8")


def _files(folder: Path, seeds: int, only: Iterable[str]) -> Iterator[Path]:
    """Yield the scenario files, each made when it is needed."""
    wanted = set(only)
    for name in SCENARIOS:
        if not wanted or name in wanted:
            yield _write(folder, generate.make(name))
    for name in catalog.NAMES:
        for seed in range(1, seeds + 1) if not wanted or name in wanted else ():
            yield _write(folder, catalog.make(name, seed))


def _write(folder: Path, scenario: dict[str, Any]) -> Path:
    file = folder / f"{scenario['name']}.json"
    file.write_text(json.dumps(scenario), "utf-8")
    return file


def compare(program: str, file: Path, rounds: int) -> Row:
    """Return the best rates of both on a scenario. Exits where an answer differs."""
    go, dray = 0.0, 0.0
    answers = file.with_suffix(".answers")
    figures: dict[str, Any] = {}
    for _ in range(rounds):
        go = max(go, _run_go(program, file))
        figures = _run_dray(file, answers)
        dray = max(dray, figures["claims_per_s"])
    scenario = scenarios.read(file.read_bytes())
    row: Row = {
        "scenario": scenario.name,
        "nodes": len(scenario.nodes),
        "devices": sum(len(found.spec.devices) for found in scenario.slices),
        "claims": figures["claims"],
        "placed": figures["allocated"],
        "dray": round(dray),
        "go": round(go),
        "ratio": round(dray / max(go, LEAST_RATE), 2),
        "compared": _require_equal(answers, file.with_suffix(".rotate.json")),
    }
    if row["ratio"] < PROFILED_BELOW:
        row["profile"] = profile(file)
    return row


def _run_go(program: str, file: Path) -> float:
    environment = {**os.environ, "ANSWERS": str(file.parent)}
    done = subprocess.run(
        [program, "rotate", file], env=environment, capture_output=True, text=True, check=True
    )
    found = _CLAIMS_PER_S.search(done.stdout)
    if found is None:
        sys.exit(f"{program} printed no claims/s: {done.stdout!r}")
    return float(found[1])


def _run_dray(file: Path, answers: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "dray", "bench", "allocate", str(file), "--start", "rotate"]
    done = subprocess.run(
        [*command, "--json", "--out", str(answers)], capture_output=True, text=True, check=True
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _require_equal(ours: Path, theirs: Path) -> int:
    """Return how many answers were compared: those that the other allocator came to in its time."""
    if not theirs.exists():
        return 0
    expected = json.loads(theirs.read_bytes())
    difference = allocate.compare(json.loads(ours.read_bytes()), expected)
    if difference is not None:
        sys.exit(f"{ours.stem}: {difference}")
    return len(expected)


def profile(file: Path) -> list[str]:
    """Return the functions that take most of the time, each with its share."""
    measured = cProfile.Profile()
    scenario = scenarios.read(file.read_bytes())
    measured.runcall(allocate.run, scenario, start=allocate.ROTATE)
    stats = pstats.Stats(measured).get_stats_profile()
    placing = next(found for name, found in stats.func_profiles.items() if name == "place_all")
    within = sorted(
        (found.cumtime / placing.cumtime, found.file_name, name)
        for name, found in stats.func_profiles.items()
        if f"{os.sep}allocator{os.sep}" in found.file_name
    )
    top = within[: -_PROFILE_LINES - 1 : -1]
    return [f"{share:.0%} {Path(name).stem}.{function}" for share, name, function in top]


_PROFILE_LINES = 8


if __name__ == "__main__":
    main()
