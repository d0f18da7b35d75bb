"""Scores how commands answer a mistake, by trying their corrections on a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from dray.cli.main import main
from dray.testing.clusters import Cluster
from tests.cli.mistakes.table import TAINTED, Answer, Mistake, Score, Scores

SIZES = {"h100": 2, "l4": 2, "shared": 1}
TAINT = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: maintenance}
spec:
  deviceSelector: {driver: gpu.nvidia.com}
  taint: {key: example.com/maintenance, value: planned, effect: NoSchedule}
"""


@contextmanager
def clusters() -> Iterator[Callable[[str], Cluster]]:
    """Run clusters with simulated nodes, one for each fleet, started when first needed."""
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


def scores(mistake: Mistake, cluster: Cluster, directory: Path) -> Scores:
    """Return the scores of a mistake. Raises AssertionError if an answer is not true."""
    file = directory / f"{mistake.name}.yaml"
    file.write_text(mistake.text, "utf-8")
    linted = _linted(mistake, cluster, file)
    explained = dray(cluster, "explain", "-f", str(file)).stdout
    try:
        applied = _applied(mistake, cluster, file)
    finally:
        delete(cluster, file)
    is_corrected = _is_corrected(mistake, cluster, file)
    is_explained = (
        _is_corrected_by_explain(mistake, cluster, directory)
        if mistake.explain_fixes
        else is_corrected and mistake.explain is None
    )
    return Scores(
        _score(linted, mistake.lint, is_corrected=is_corrected),
        _score(applied, mistake.apply_answer, is_corrected=is_corrected),
        _score(explained, mistake.explain_answer, is_corrected=is_explained)
        if mistake.is_explained
        else None,
    )


def _score(text: str, answer: Answer, *, is_corrected: bool) -> Score:
    fix = 0 if answer.fix not in text else 2 if is_corrected else 1
    return Score(2 if answer.cause in text else 0, fix)


def _linted(mistake: Mistake, cluster: Cluster, file: Path) -> str:
    """Return what lint prints, after a look at the places that it names."""
    found = json.loads(lint(cluster, file, "-o", "json").stdout)
    assert mistake.rule in {item["rule"] for item in found}, found
    for item in found:
        line = mistake.text.split("\n")[item["line"] - 1]
        assert 1 <= item["column"] <= len(line), item
    return lint(cluster, file).stdout


def _applied(mistake: Mistake, cluster: Cluster, file: Path) -> str:
    """Return what apply prints, without the correction if it does not name the command."""
    answer = dray(cluster, "apply", "-f", str(file))
    assert ("Error: " in answer.stderr) == (answer.exit_code == 1)
    command = f"Correct it: dray lint {' '.join(mistake.options)} {file}"
    assert not mistake.options or command in answer.stderr, answer.stderr
    return answer.stderr


def _is_corrected(mistake: Mistake, cluster: Cluster, file: Path) -> bool:
    """Return whether lint corrects the file; then its pod has to run."""
    lint(cluster, file, *mistake.options)
    clean = lint(cluster, file, "--strict", "--ignore", "extended-resource")
    assert (clean.exit_code == 0) == bool(mistake.options), clean.output
    if not mistake.options:
        return False
    once = file.read_text("utf-8")
    assert _comments(once) == _comments(mistake.text)
    lint(cluster, file, *mistake.options)
    assert file.read_text("utf-8") == once
    _runs(mistake, cluster, file)
    return True


def _is_corrected_by_explain(mistake: Mistake, cluster: Cluster, directory: Path) -> bool:
    file, fixed = directory / f"{mistake.name}.yaml", directory / "fixed.yaml"
    file.write_text(mistake.text, "utf-8")
    printed = dray(cluster, "explain", "-f", str(file), "--fix").stdout
    assert printed.startswith("# pod/"), printed
    changed = {_key(document): document for document in yaml.safe_load_all(printed)}
    documents = [changed.get(_key(item), item) for item in yaml.safe_load_all(mistake.text)]
    fixed.write_text(yaml.safe_dump_all(documents), "utf-8")
    _runs(mistake, cluster, fixed, "--no-lint")
    return True


def _runs(mistake: Mistake, cluster: Cluster, file: Path, *options: str) -> None:
    applied = dray(cluster, "apply", "-f", str(file), *options)
    assert applied.exit_code == 0, applied.output
    try:
        cluster.wait_for(lambda: _has_run(cluster, mistake.name), f"pod {mistake.name} running")
    finally:
        delete(cluster, file)


def _has_run(cluster: Cluster, name: str) -> bool:
    pods: list[dict[str, Any]] = cluster.list("pods")
    own = [pod for pod in pods if pod["metadata"]["name"].startswith(name)]
    return any(pod["status"]["phase"] in ("Running", "Succeeded") for pod in own)


def _comments(text: str) -> set[str]:
    return set(re.findall(r" (#.*)", text))


def _key(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def delete(cluster: Cluster, file: Path) -> None:
    """Delete what was applied; files with mistakes may name things that do not exist."""
    try:
        documents = list(yaml.safe_load_all(file.read_text("utf-8")))
    except yaml.YAMLError:
        return
    for document in reversed(documents):
        kind, metadata = document["kind"].lower(), document["metadata"]
        kind = kind if kind.endswith("class") else kind.removesuffix("s")
        space = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
        if kind != "namespace":
            dray(cluster, "delete", kind, metadata["name"], *space, "--ignore-not-found")
