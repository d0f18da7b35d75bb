"""Checks the tree, builds a release, and prints what to tag and upload.

`make release VERSION=x`, or `python -m tools.release x`. Nothing is published.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.release import build, checks, project
from tools.release.project import ROOT

GITHUB: Final = re.compile(
    r"(?:https://|git@|ssh://git@)github\.com[/:](?P<name>[^/]+/[^/]+?)(\.git)?"
)
NO_ADDRESS: Final = (
    "krew's manifests need the address below which the files can be downloaded: "
    "make release VERSION=… URL=https://…"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument(
        "version", nargs="?", default="", help="the version to release, such as 1.2.0"
    )
    parser.add_argument(
        "--url", help="where the files can be downloaded; from the origin on GitHub"
    )
    parser.add_argument("--homepage", help="the address of the project; from the origin on GitHub")
    options = parser.parse_args()
    facts = project.read()
    place = _place(options.version, options.url, options.homepage)
    problems = [*checks.problems(options.version, facts), *([] if place else [NO_ADDRESS])]
    if place is None or problems:
        sys.exit("\n".join(["Not ready:", *(f"- {problem}" for problem in problems)]))
    try:
        checks.check_pages()
    except subprocess.CalledProcessError:
        sys.exit(
            "Not ready: a page is wrong, as said above. `make generate` rebuilds some of them."
        )
    target = ROOT / "dist" / options.version
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        build.build_all(target, facts, place, build.commit_time())
    except subprocess.CalledProcessError as error:
        sys.exit(f"`{' '.join(error.cmd)}` failed: {error.stderr}")
    print(next_steps(options.version, target, place))


def _place(version: str, url: str | None, homepage: str | None) -> build.Place | None:
    """Return where the files will be, as the options say or on GitHub; None if nobody says."""
    remotes = checks.git(ROOT, "remote").split()
    origin = checks.git(ROOT, "remote", "get-url", "origin") if "origin" in remotes else ""
    if match := GITHUB.fullmatch(origin):
        homepage = homepage or f"https://github.com/{match['name']}"
        url = url or f"{homepage}/releases/download/v{version}"
    return build.Place(url.rstrip("/"), homepage or url) if url else None


def next_steps(version: str, target: Path, place: build.Place) -> str:
    """Return what to do with the files."""
    sizes = [f"  {path.stat().st_size:>11,}  {path.name}" for path in sorted(target.iterdir())]
    folder = target.relative_to(ROOT)
    packages = f"{folder}/dray-{version}-py3-none-any.whl {folder}/dray-{version}.tar.gz"
    return "\n".join(
        [
            f"Built in {folder}:",
            *sizes,
            "",
            "Once `make test` and `make long` have passed on this commit:",
            f'1. Tag it: git tag -a v{version} -m "dray {version}" && git push origin v{version}',
            f"2. Upload the packages to PyPI: uv publish {packages}",
            f"3. Upload all files to {place.downloads}",
            "4. Build and push the images of deploy/Containerfile and the charts of deploy/helm.",
            "5. Send why.yaml and dra.yaml to krew's index, for its folder plugins.",
        ]
    )


if __name__ == "__main__":
    main()
