"""Each mistake is answered with its cause and its correction, and the corrected pod runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray.testing.clusters import Cluster
from tests.cli.mistakes import scoring, table
from tests.cli.mistakes.table import ALL, KNOWN, Mistake


@pytest.fixture(scope="module")
def cluster_of() -> Iterator[Callable[[str], Cluster]]:
    with scoring.clusters() as started:
        yield started


@pytest.mark.parametrize("mistake", [pytest.param(item, id=item.name) for item in ALL])
def test_a_mistake_is_answered_and_corrected(
    mistake: Mistake, cluster_of: Callable[[str], Cluster], tmp_path: Path
) -> None:
    scores = scoring.scores(mistake, cluster_of(mistake.fleet), tmp_path)
    answers = [score for score in scores if score is not None]
    assert all(score.cause == 2 for score in answers), scores
    assert all(score.fix >= 1 for score in answers), scores
    assert not mistake.options or (scores.lint.fix, scores.apply.fix) == (2, 2), scores
    assert table.row(mistake, scores) in table.PAGE.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    "mistake", [pytest.param(item, id=item.name) for item in ALL if not item.explain_fixes]
)
def test_explain_prints_no_fix_where_it_has_none(
    mistake: Mistake, cluster_of: Callable[[str], Cluster], tmp_path: Path
) -> None:
    file = tmp_path / f"{mistake.name}.yaml"
    file.write_text(mistake.text, "utf-8")
    printed = scoring.dray(cluster_of(mistake.fleet), "explain", "-f", str(file), "--fix").stdout
    assert not printed.startswith("# pod/"), printed


def test_the_table_has_a_row_for_each_mistake() -> None:
    lines = table.PAGE.read_text("utf-8").splitlines()
    assert "\n".join(lines[: -len(ALL)]) + "\n" == table.HEAD
    assert len(lines) == len(table.HEAD.splitlines()) + len(ALL)


def test_there_is_a_manifest_for_each_mistake() -> None:
    manifests = {path.stem for path in (table.HERE / "manifests").glob("*.yaml")}
    assert manifests == {mistake.name for mistake in ALL}
    assert len(KNOWN) == 35
