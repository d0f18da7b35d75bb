"""`dray plan replay`: Kubernetes' answers to scenarios, and the published results for traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dray.cli.main import main
from tests import rounds
from tests.conformance import test_scenarios
from tests.recorded import BENCH, ROOT, TRACES

SAMPLE = ROOT / "examples" / "traces" / "openb_sample_pod_list.csv"
PUBLISHED = {
    "random": "01-Random",
    "dot-product": "02-DotProd",
    "clustering": "03-GpuClustering",
    "packing": "04-GpuPacking",
    "best-fit": "05-BestFit",
    "fgd": "06-FGD",
}
TOLERANCE = 0.5
EXPECTED = "openb_expected.json"
NODES = "openb_node_list_gpu_node.csv"


def replay(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["plan", "replay", *arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def means(*arguments: str) -> dict[str, float]:
    document = replay(*arguments, "--policy", ",".join(PUBLISHED))
    return {line["policy"]: line["mean"] for line in document["policies"]}


def has_published_order(found: dict[str, float]) -> bool:
    middle = found["packing"], found["clustering"]
    return (
        found["fgd"] > found["best-fit"] > max(middle)
        and min(middle) > found["dot-product"] > found["random"]
    )


@pytest.mark.random
@pytest.mark.parametrize("name", test_scenarios.NAMES if rounds.CHOSEN.is_long else ("S1", "S4"))
def test_every_claim_goes_where_upstream_put_it(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps(test_scenarios.scenario(name)), "utf-8")
    document = replay(str(file), "--policy", "upstream", "--placements")
    answers = BENCH.json(f"answers/{name}.json")
    assert document["runs"][0]["answers"] == answers


def test_policies_on_a_tenth_of_the_trace_are_near_those_on_all_of_it() -> None:
    found = means(str(SAMPLE), "--seeds", "10")
    assert found["fgd"] > found["best-fit"] > max(found["packing"], found["clustering"])
    assert found["random"] == min(found.values())
    # Means that were published for the whole trace; a tenth of it varies more.
    published = {"random": 87.47, "dot-product": 90.85, "best-fit": 93.08, "fgd": 95.39}
    for policy, value in published.items():
        assert abs(found[policy] - value) < 1.5


@pytest.mark.slow
@pytest.mark.random
@pytest.mark.parametrize("name", ["default", "cpu100", "gpushare100"])
def test_means_are_those_that_were_published(name: str, tmp_path: Path) -> None:
    pods = f"openb_pod_list_{name}.csv"
    for file in (EXPECTED, NODES, pods):
        if not TRACES.has(file):
            pytest.skip(TRACES.why_absent(file))
        (tmp_path / file).write_text(TRACES.read(file), "utf-8")
    seeds = rounds.count(1, long=10)
    found = means(str(tmp_path / pods), "--nodes", str(tmp_path / NODES), "--seeds", str(seeds))
    expected = TRACES.json(EXPECTED)[name]
    differences = {
        policy: found[policy] - expected[published]["mean_at_130"]
        for policy, published in PUBLISHED.items()
    }
    # The mean of few seeds varies more: by the square root of their number.
    assert max(map(abs, differences.values())) < TOLERANCE * (10 / seeds) ** 0.5, differences
    if seeds == 10:
        assert has_published_order(found), found
