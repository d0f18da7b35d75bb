"""What a release publishes beside the packages runs on a machine without the repository."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.release import bundle

import dray
from tests import rounds
from tests.packages.conftest import PLACE
from tests.packages.installation import Installation
from tests.pages import ROOT
from tests.test_pins import PYPROJECT, pinned

pytestmark = [pytest.mark.slow, pytest.mark.random, pytest.mark.xdist_group("release")]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where dray.pyz is unpacked, once for all users."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with `python3`, the Python of these tests, and nothing else of the repository."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    return folder


@pytest.fixture
def user(release: Path, programs: Path, cache: Path, tmp_path: Path) -> Installation:
    """A user with dray.pyz on the PATH."""
    (pyz,) = release.glob("*.pyz")
    (programs / "dray").symlink_to(pyz)
    return Installation(tmp_path / "home", programs, cache=cache)


def test_a_cluster_runs_from_one_file(user: Installation) -> None:
    user.check_cluster()
    if rounds.CHOSEN.is_long:
        assert "The demo has passed" in user.run("dray", "demo")


def test_what_others_installed_does_not_matter(
    release: Path, user: Installation, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    (site,) = (tmp_path / "v" / "lib").glob("python3.*/site-packages")
    for name in ("click", "google"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("raise ImportError('an old version')\n", "utf-8")
    (pyz,) = release.glob("*.pyz")
    python = str(tmp_path / "v" / "bin" / "python")
    assert dray.__version__ in user.run(python, str(pyz), "--version")
    assert "Matches 30 of 30" in user.run(
        python, str(pyz), "cel", "true", "--against", "quickstart"
    )


def test_kubectl_finds_the_plugins(
    release: Path, programs: Path, cache: Path, tmp_path: Path
) -> None:
    (archive,) = release.glob("kubectl-plugins-*.tar.gz")
    folder = tmp_path / "store"
    folder.mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder)], check=True)
    # As krew does: a link in a folder of the PATH.
    for name in ("kubectl-why", "kubectl-dra"):
        (programs / name).symlink_to(folder / name)
    (programs / "dray").symlink_to(folder / "dray.pyz")
    kubectl = shutil.which("kubectl")
    why = [kubectl, "why"] if kubectl else ["kubectl-why"]
    dra = [kubectl, "dra"] if kubectl else ["kubectl-dra"]
    user = Installation(tmp_path / "home", programs, cache=cache)
    with user.cluster():
        assert "gpu-0/gpu-0" in user.run(*dra, "get", "devices")
        user.run(*dra, "apply", "-f", str(ROOT / "examples" / "01-one-gpu"))
        user.run(*dra, "wait", "--for=condition=Ready", "pod/train", "--timeout", "60s")
        assert "pod default/train" in user.run(*why, "pod/train")
    assert user.run(*why, "--help").startswith("Usage: kubectl-why ")
    assert user.run(*dra, "--help").startswith("Usage: kubectl-dra ")


def test_the_manifests_of_krew_name_the_archive(release: Path) -> None:
    (archive,) = release.glob("kubectl-plugins-*.tar.gz")
    with tarfile.open(archive) as packed:
        members = {member.name: member for member in packed}
    # krew unpacks files and folders only.
    assert all(member.isreg() for member in members.values())
    for name in ("why", "dra"):
        manifest = yaml.safe_load((release / f"{name}.yaml").read_text("utf-8"))
        assert manifest["metadata"]["name"] == name
        spec = manifest["spec"]
        assert spec["version"] == f"v{dray.__version__}"
        assert len(spec["shortDescription"]) <= 50
        (platform,) = spec["platforms"]
        assert platform["uri"] == f"{PLACE.downloads}/{archive.name}"
        assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert members[platform["bin"]].mode == 0o755
        assert {file["from"] for file in platform["files"]} <= members.keys()


def test_the_sbom_lists_what_is_installed(release: Path) -> None:
    (file,) = release.glob("*.cdx.json")
    document = json.loads(file.read_text("utf-8"))
    assert document["metadata"]["component"]["version"] == dray.__version__
    listed = {each["name"]: each["version"] for each in document["components"]}
    versions = pinned("constraints.txt")
    assert all(versions[name][0] == version for name, version in listed.items())
    table = PYPROJECT["project"]
    extras = [each for extra in bundle.EXTRAS for each in table["optional-dependencies"][extra]]
    wanted = {
        canonicalize_name(Requirement(each).name) for each in [*table["dependencies"], *extras]
    }
    depends = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    own = depends[document["metadata"]["component"]["bom-ref"]]
    assert {each.removeprefix("pkg:pypi/").partition("@")[0] for each in own} == wanted
    assert wanted <= listed.keys()
    assert {each["bom-ref"] for each in document["components"]} < depends.keys()


def test_the_checksums_are_right(release: Path) -> None:
    printed = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"],
        cwd=release,
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed.returncode == 0, printed.stdout
    others = {path.name for path in release.iterdir()} - {"SHA256SUMS"}
    assert {line.partition(":")[0] for line in printed.stdout.splitlines()} == others
