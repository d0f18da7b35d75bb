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

IMAGES = ("deploy/requirements.txt", "deploy/build-requirements.txt")
FILES = ("constraints.txt", *IMAGES, "tools/uv.txt")
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


def test_the_images_have_the_versions_of_make() -> None:
    everything = pinned("constraints.txt")
    images = [pinned(file) for file in IMAGES]
    for image in images:
        assert {name: everything.get(name) for name in image} == image
    project = PYPROJECT["project"]
    run = [*project["dependencies"], *project["optional-dependencies"]["nvidia"]]
    for image, wanted in zip(images, (run, PYPROJECT["build-system"]["requires"]), strict=True):
        assert {canonicalize_name(Requirement(each).name) for each in wanted} <= image.keys()
    assert not images[0].keys() & {"hatchling", "editables"}, "what builds dray is not run"


def test_nothing_is_installed_without_hashes() -> None:
    """dray itself has none: it comes without dependencies, built with pinned tools."""
    recipes = "".join(
        (ROOT / name).read_text("utf-8") for name in ("Makefile", "deploy/Containerfile")
    )
    installs = re.findall(
        r"(?:pip -q install|pip install|pip wheel|\$\(INSTALL\)) [^|;&\n]*", recipes
    )
    installs = [each for each in installs if "--python $(VENV)" not in each]
    assert len(installs) >= 8, installs
    alone = ("-b constraints.txt", "--no-build-isolation", "--no-index")
    for each in installs:
        is_dray = "--no-deps" in each and any(option in each for option in alone)
        assert "--require-hashes" in each or is_dray, each
