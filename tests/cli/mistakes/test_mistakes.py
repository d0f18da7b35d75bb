"""Each mistake is answered with its cause and its correction, and the corrected pod runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dray.cli.main import main
from dray.testing.clusters import Cluster
from tests.cli.mistakes import table
from tests.cli.mistakes.table import FURTHER, KNOWN, TAINTED, Mistake

ALL = [pytest.param(mistake, id=mistake.name) for mistake in (*KNOWN, *FURTHER)]
SIZES = {"h100": 2, "l4": 2, "shared": 1}
TAINT = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: maintenance}
spec:
  deviceSelector: {driver: gpu.nvidia.com}
  taint: {key: example.com/maintenance, value: planned, effect: NoSchedule}
"""


@pytest.fixture(scope="module")
def cluster_of() -> Iterator[Callable[[str], Cluster]]:
    """Clusters with simulated nodes, one for each fleet."""
    running: dict[str, Cluster] = {}

    def started(fleet: str) -> Cluster:
        if fleet not in running:
            running[fleet] = Cluster(fleet, nodes=SIZES[fleet]).__enter__()
            if fleet == TAINTED:
                running[fleet].apply(TAINT)
        return running[fleet]

    try:
        yield started
    finally:
        for cluster in running.values():
            cluster.__exit__(None, None, None)


def dray(cluster: Cluster, *arguments: str) -> Result:
    words = [*arguments, "--kubeconfig", str(cluster.kubeconfig)]
    result = CliRunner().invoke(main, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def lint(cluster: Cluster, file: Path, *options: str) -> Result:
    return dray(cluster, "lint", str(file), "--against", "dray", *options)


def comments(text: str) -> set[str]:
    return set(re.findall(r" (#.*)", text))


@pytest.mark.parametrize("mistake", ALL)
def test_a_mistake_is_answered_and_corrected(
    mistake: Mistake, cluster_of: Callable[[str], Cluster], tmp_path: Path
) -> None:
    cluster = cluster_of(mistake.fleet)
    file = tmp_path / f"{mistake.name}.yaml"
    file.write_text(mistake.text, "utf-8")
    _lint_answers(mistake, cluster, file)
    _explain_answers(mistake, cluster, file)
    try:
        _apply_answers(mistake, cluster, file)
    finally:
        _delete(cluster, file)
    fixed = lint(cluster, file, *mistake.options)
    if not mistake.options:
        assert mistake.lint.fix in fixed.stdout
        return
    assert comments(file.read_text("utf-8")) == comments(mistake.text)
    clean = lint(cluster, file, "--strict", "--ignore", "extended-resource")
    assert clean.exit_code == 0, clean.output
    once = file.read_text("utf-8")
    lint(cluster, file, *mistake.options)
    assert file.read_text("utf-8") == once
    applied = dray(cluster, "apply", "-f", str(file))
    assert applied.exit_code == 0, applied.output
    try:
        cluster.wait_for(lambda: _runs(cluster, mistake.name), f"pod {mistake.name} running")
    finally:
        _delete(cluster, file)


def _lint_answers(mistake: Mistake, cluster: Cluster, file: Path) -> None:
    text = lint(cluster, file).stdout
    assert mistake.lint.cause in text
    assert mistake.lint.fix in text
    found = json.loads(lint(cluster, file, "-o", "json").stdout)
    assert mistake.rule in {item["rule"] for item in found}
    for item in found:
        line = mistake.text.split("\n")[item["line"] - 1]
        assert 1 <= item["column"] <= len(line), item


def _explain_answers(mistake: Mistake, cluster: Cluster, file: Path) -> None:
    answer = dray(cluster, "explain", "-f", str(file))
    assert mistake.explain_answer.cause in answer.stdout
    assert mistake.explain_answer.fix in answer.stdout


@pytest.mark.parametrize("mistake", ALL)
def test_what_explain_prints_with_fix_runs(
    mistake: Mistake, cluster_of: Callable[[str], Cluster], tmp_path: Path
) -> None:
    cluster = cluster_of(mistake.fleet)
    file, fixed = tmp_path / f"{mistake.name}.yaml", tmp_path / "fixed.yaml"
    file.write_text(mistake.text, "utf-8")
    printed = dray(cluster, "explain", "-f", str(file), "--fix").stdout
    assert printed.startswith("# pod/") == mistake.explain_fixes, printed
    if not mistake.explain_fixes:
        return
    changed = {_key(document): document for document in yaml.safe_load_all(printed)}
    documents = [changed.get(_key(item), item) for item in yaml.safe_load_all(mistake.text)]
    fixed.write_text(yaml.safe_dump_all(documents), "utf-8")
    applied = dray(cluster, "apply", "-f", str(fixed), "--no-lint")
    assert applied.exit_code == 0, applied.output
    try:
        cluster.wait_for(lambda: _runs(cluster, mistake.name), f"pod {mistake.name} running")
        assert dray(cluster, "explain", f"pod/{mistake.name}").exit_code == 0
    finally:
        _delete(cluster, fixed)


def _key(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _apply_answers(mistake: Mistake, cluster: Cluster, file: Path) -> None:
    answer = dray(cluster, "apply", "-f", str(file))
    assert mistake.apply_answer.cause in answer.stderr
    assert mistake.apply_answer.fix in answer.stderr
    assert ("Error: " in answer.stderr) == (answer.exit_code == 1)
    if mistake.options:
        assert f"Correct it: dray lint {' '.join(mistake.options)} {file}" in answer.stderr


def _delete(cluster: Cluster, file: Path) -> None:
    """Delete what was applied; files with mistakes may name things that do not exist."""
    try:
        documents = list(yaml.safe_load_all(file.read_text("utf-8")))
    except yaml.YAMLError:
        return
    for document in reversed(documents):
        kind, metadata = document["kind"].lower().removesuffix("s"), document["metadata"]
        space = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
        if kind != "namespace":
            dray(cluster, "delete", kind, metadata["name"], *space, "--ignore-not-found")


def _runs(cluster: Cluster, name: str) -> bool:
    pods: list[dict[str, Any]] = cluster.list("pods")
    own = [pod for pod in pods if pod["metadata"]["name"].startswith(name)]
    return any(pod["status"]["phase"] in ("Running", "Succeeded") for pod in own)


def test_the_table_is_current() -> None:
    assert table.PAGE.read_text("utf-8") == table.page()


def test_there_is_a_manifest_for_each_mistake() -> None:
    manifests = {path.stem for path in (table.HERE / "manifests").glob("*.yaml")}
    assert manifests == {mistake.name for mistake in (*KNOWN, *FURTHER)}
    assert len(KNOWN) == 35
