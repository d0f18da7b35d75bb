"""What `make` and the image install is pinned to versions and to the hashes of their files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pages import ROOT

FILES = ("constraints.txt", "deploy/requirements.txt", "tools/uv.txt")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pinned(file: str) -> dict[str, tuple[str, int]]:
    """The version and the number of hashes of each name."""
    text = (ROOT / file).read_text("utf-8").replace("\\\n", " ")
    found: dict[str, tuple[str, int]] = {}
    for line in filter(None, text.splitlines()):
        match = re.fullmatch(
            r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)( ; [^;]*?)?"
            r"(?P<hashes>(\s+--hash=sha256:[0-9a-f]{64})+)\s*",
            line,
        )
        assert match, f"{file}: {line[:200]}"
        count = match["hashes"].count("--hash")
        found[canonicalize_name(match["name"])] = (match["version"], count)
    return found


def in_group(name: str) -> Iterator[str]:
    for each in PYPROJECT["dependency-groups"][name]:
        if isinstance(each, str):
            yield each
        else:
            yield from in_group(each["include-group"])


@pytest.mark.parametrize("file", FILES)
def test_each_line_is_one_version_with_hashes(file: str) -> None:
    assert all(count > 0 for _, count in pinned(file).values())


def test_all_that_pyproject_names_is_pinned_in_a_version_that_it_allows() -> None:
    project, versions = PYPROJECT["project"], pinned("constraints.txt")
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    texts = [
        *project["dependencies"],
        *extras,
        *PYPROJECT["build-system"]["requires"],
        *in_group("dev"),
    ]
    for requirement in map(Requirement, texts):
        version, _ = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


def test_the_image_has_the_versions_of_make() -> None:
    everything, image = pinned("constraints.txt"), pinned("deploy/requirements.txt")
    assert {name: everything.get(name) for name in image} == image
    wanted = [*PYPROJECT["project"]["dependencies"], *in_group("build")]
    wanted += PYPROJECT["project"]["optional-dependencies"]["nvidia"]
    assert {canonicalize_name(Requirement(each).name) for each in wanted} <= image.keys()


def test_nothing_is_installed_without_hashes() -> None:
    """The editable dray has none: it comes without dependencies, built with pinned tools."""
    recipes = (ROOT / "Makefile").read_text("utf-8") + (
        ROOT / "deploy/nvidia.Dockerfile"
    ).read_text()
    installs = re.findall(r"(?:pip -q install|pip install|\$\(INSTALL\)) [^|;&\n]*", recipes)
    installs = [each for each in installs if "--python $(VENV)" not in each]
    assert len(installs) >= 7, installs
    for each in installs:
        is_dray = "--no-deps" in each and ("-b constraints.txt" in each or "isolation" in each)
        assert "--require-hashes" in each or is_dray, each
