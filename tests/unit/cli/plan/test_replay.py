"""`dray plan replay`: tables, JSON, charts, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import run

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,1024,2,T4\nn1,8000,1024,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "a,1000,128,1,500,,0,100\n"
    "b,1000,128,2,1000,,10,50\n"
    "c,1000,128,0,0,,20,30\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "node_list.csv").write_text(NODES)
    path = tmp_path / "pod_list.csv"
    path.write_text(PODS)
    return path


def test_a_table_compares_the_policies(trace: Path) -> None:
    result = run("plan", "replay", str(trace), "--policy", "fgd,upstream,fgd", "--seeds", "3")
    assert result.exit_code == 0, result.output
    header, *lines = result.stdout.splitlines()
    assert header.split("   ")[0] == "POLICY"
    assert "AT 130%" in header
    assert [line.split()[:2] for line in lines] == [["fgd", "3"], ["upstream", "3"]]


def test_all_policies_are_compared_by_default(trace: Path) -> None:
    lines = run("plan", "replay", str(trace), "--demand", "50").stdout.splitlines()
    assert len(lines) == 1 + 8
    assert "AT 50%" in lines[0]


def test_json_has_summaries_runs_and_placements_on_demand(trace: Path) -> None:
    options = ("plan", "replay", str(trace), "--policy", "first-fit", "--departures", "-o", "json")
    document = json.loads(run(*options).stdout)
    (line,) = document["policies"]
    assert (line["pods"], line["dropped"], line["peak"]) == (3, 0, 62.5)
    assert set(document["runs"][0]) == {"policy", "seed", "pods", "dropped", "samples"}
    document = json.loads(run(*options, "--placements").stdout)
    placed = [["a", "n0", [0]], ["b", "n1", [0, 1]], ["c", "n0", []]]
    assert document["runs"][0]["placements"] == placed


@pytest.mark.parametrize("options", [(), ("--departures",)])
def test_a_chart_is_written(trace: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    chart = tmp_path / "chart.svg"
    result = run("plan", "replay", str(trace), "--chart", str(chart), *options)
    assert result.exit_code == 0, result.output
    assert chart.read_text().startswith("<svg ")
    result = run("plan", "replay", str(trace), "--chart", str(tmp_path / "absent" / "c.svg"))
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.stderr


def test_packed_files_are_unpacked(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "pods.csv.gz"
    packed.write_bytes(gzip.compress(PODS.encode()))
    assert run("plan", "replay", str(packed)).exit_code == 0
    packed.write_bytes(gzip.compress(PODS.encode())[:-9])
    result = run("plan", "replay", str(packed))
    assert result.exit_code == 1
    assert "pods.csv.gz cannot be read: " in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "bestfit"), "there is no policy 'bestfit'. Did you mean best-fit?"),
        (("--policy", "xyz"), "Choose from: upstream, first-fit, random"),
        (("--placements",), "--placements needs -o json."),
        (("--departures", "--demand", "90"), "--demand is for arrivals alone"),
        (("--seeds", "0"), "0 is not in the range"),
    ],
)
def test_an_option_that_is_not_honoured_is_refused(
    trace: Path, options: tuple[str, ...], message: str
) -> None:
    result = run("plan", "replay", str(trace), *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_list_of_nodes_must_be_found(trace: Path) -> None:
    (trace.parent / "other_node_list.csv").write_text(NODES)
    result = run("plan", "replay", str(trace))
    assert result.exit_code == 2
    assert "with several lists of nodes beside it.\nName one with --nodes FILE." in result.stderr
    named = run("plan", "replay", str(trace), "--nodes", str(trace.parent / "node_list.csv"))
    assert named.exit_code == 0


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (PODS.replace("500", "x").encode(), "2:14: gpu_milli is 'x'"),
        (PODS.encode() + b"d,1,1,1,\xff,,0,1\n", "5:9: this is no UTF-8 text"),
        (b'{"nodes": [\n{"metadata": 1}]}', "2:14: nodes[0].metadata: Expected `object`"),
    ],
)
def test_an_unreadable_trace_names_file_line_and_column(
    trace: Path, content: bytes, place: str
) -> None:
    trace.write_bytes(content)
    result = run("plan", "replay", str(trace))
    assert result.exit_code == 1
    assert f"{trace}:{place}" in result.stderr


def test_departures_need_times(trace: Path) -> None:
    trace.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\n")
    result = run("plan", "replay", str(trace), "--departures")
    assert result.exit_code == 1
    assert "pod a has no creation_time, which departures need." in result.stderr


def test_a_scenario_refuses_what_it_does_not_have(tmp_path: Path) -> None:
    scenario = tmp_path / "s.json"
    scenario.write_text(json.dumps({"claims": [], "nodes": []}))
    for options, message in (
        (("--policy", "clustering"), "the policy clustering compares requests of CPU and parts"),
        (("--departures",), "a scenario has no times"),
        (("--nodes", str(scenario)), "is a scenario and has nodes already"),
    ):
        result = run("plan", "replay", str(scenario), *options)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
