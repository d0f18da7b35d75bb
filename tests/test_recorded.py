"""Recorded answers are found in the repository, or where an environment variable says."""

from __future__ import annotations

import fnmatch
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import recorded
from tests.conformance import cases
from tests.recorded import BENCH, CASES, CORPUS, GOLDEN, NVML, ROOT, SEEDS, TRACES

MOST_BYTES = 4_000_000
UPSTREAM = {
    "allocator",
    "allocator_features",
    "capacity_units",
    "cel_device",
    "cel_overloads",
    "cel_spec",
    "cel_spec_kubernetes",
    "validation",
}
"""Tables of Kubernetes and of the CEL specification, which are not ours to keep."""


@pytest.fixture(autouse=True)
def _nothing_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for collection in (BENCH, CASES, GOLDEN, NVML, SEEDS, TRACES):
        monkeypatch.delenv(collection.variable, raising=False)
    monkeypatch.setattr(recorded, "BESIDE", tmp_path / "beside")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def corpus_files() -> Iterator[Path]:
    for path in CORPUS.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_changed_case_is_read_instead_of_the_one_kept(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = CASES.lines("fuzz_allocator.jsonl")
    changed = {**kept[0], "name": "changed"}
    write(tmp_path / f"fuzz_allocator.jsonl{suffix}", json.dumps(changed))
    monkeypatch.setenv("DRAY_CASES", str(tmp_path))
    (parameter,) = cases.parameters("fuzz_allocator")
    assert parameter.values == (changed,)
    assert parameter.id == "changed"
    assert CASES.lines("cel_probes.jsonl"), "the others are still the repository's"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_transcripts_are_replaced_file_by_file_and_others_are_added(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = GOLDEN.parents("*/output.txt")
    manifest = GOLDEN.read("001-deviceclass/manifest.yaml")
    write(tmp_path / f"001-deviceclass/output.txt{suffix}", "$ true\n")
    write(tmp_path / f"999-new/output.txt{suffix}", "$ false\n")
    monkeypatch.setenv("DRAY_GOLDEN", str(tmp_path))
    assert GOLDEN.read("001-deviceclass/output.txt") == "$ true\n"
    assert GOLDEN.read("001-deviceclass/manifest.yaml") == manifest
    assert sorted({*GOLDEN.parents("*/output.txt")} - {*known}) == ["999-new"]
    GOLDEN.copy("001-deviceclass", tmp_path / "copy")
    assert (tmp_path / "copy" / "output.txt").read_text() == "$ true\n"
    assert (tmp_path / "copy" / "manifest.yaml").read_text() == manifest


def test_without_a_variable_the_repository_comes_first_and_what_it_lacks_is_looked_for_beside(
    tmp_path: Path,
) -> None:
    kept = CASES.lines("cel_probes.jsonl")
    write(tmp_path / "beside/cases/cel_probes.jsonl", "{}")
    write(tmp_path / "beside/cases/validation.jsonl", '{"name": "a"}\n{"name": "a"}\n')
    assert CASES.lines("cel_probes.jsonl") == kept
    assert [parameter.id for parameter in cases.parameters("validation")] == ["a", "a#2"]


def test_a_table_that_is_nowhere_is_skipped_by_name_and_says_what_to_set() -> None:
    (parameter,) = cases.parameters("validation")
    (mark,) = parameter.marks
    assert mark.name == "skip"
    assert "validation.jsonl" in mark.args[0]
    assert "DRAY_CASES" in mark.args[0]
    with pytest.raises(FileNotFoundError, match="set DRAY_CASES"):
        CASES.read("validation.jsonl")


def test_every_kept_collection_has_something_to_replay() -> None:
    assert len(CASES.lines("fuzz_allocator.jsonl")) == 400
    assert len(CASES.lines("cel_probes.jsonl")) == 376
    assert len(GOLDEN.parents("*/output.txt")) == 85
    assert BENCH.names("answers/*.json") == [f"answers/S{each}.json" for each in (1, 2, 3, 4, 5, 7)]
    assert NVML.json("h200.json")["gpus"]


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in corpus_files()) < MOST_BYTES


def test_every_file_of_the_corpus_is_described() -> None:
    text = (CORPUS / "README.md").read_text("utf-8")
    described = re.findall(r"^\| `([^`]+/[^`]+)` \|", text, re.MULTILINE)
    names = {path.relative_to(CORPUS).as_posix() for path in corpus_files()}
    kept = {name for name in names if name != "README.md" and not name.endswith("__init__.py")}
    matched = {pattern: set(fnmatch.filter(kept, pattern)) for pattern in described}
    assert [pattern for pattern, files in matched.items() if not files] == []
    assert sorted(kept.difference(*matched.values())) == []


def test_the_index_lists_every_transcript() -> None:
    listed = re.findall(r"^- \*\*(.+?)\*\*", GOLDEN.read("INDEX.md"), re.MULTILINE)
    assert listed == GOLDEN.parents("*/output.txt")


def test_no_table_of_others_lies_in_the_repository() -> None:
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    found = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if re.search(r"\.(jsonl?|txt|csv)(\.gz)?$", path.name)
        and path.name.partition(".")[0] in UPSTREAM
    ]
    assert found == []
    assert {case["suite"] for case in CASES.lines("fuzz_allocator.jsonl")} == {"fuzz"}
