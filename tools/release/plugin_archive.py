"""Makes the archive of the kubectl plugins, and the manifests with which krew installs it.

The archive needs a Python of the machine, which krew cannot install: dray.pyz beside the programs
holds everything else. The manifests name the versions of Python.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tools.release.bundle import Platform
from tools.release.project import ROOT, Project

PROGRAM: Final = '''#!/usr/bin/env python3
"""`{shown}`, a plugin of kubectl, from the dray.pyz beside this file."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "dray.pyz"))

import dray_start

dray_start.main("{name}")
'''


@dataclass(frozen=True)
class Plugin:
    """A plugin in the words that krew shows."""

    name: str
    short: str
    """At most 50 characters, as krew asks for."""
    long: str

    @property
    def program(self) -> str:
        return f"kubectl-{self.name}"


PLUGINS: Final = (
    Plugin(
        "why",
        "Explain why pods wait for devices (DRA)",
        "Explains why a pod, claim or workload does not get its devices: how many devices each\n"
        "condition leaves, who holds the others, and the smallest change that would fit.\n"
        "It reads the cluster and changes nothing: `kubectl why pod/train`.\n",
    ),
    Plugin(
        "dra",
        "Inspect and check dynamic resource allocation",
        "The commands of dray for clusters with Dynamic Resource Allocation: devices and who\n"
        "holds them (`kubectl dra get devices`, `kubectl dra top`), mistakes in manifests\n"
        "(`kubectl dra lint`), selectors (`kubectl dra cel`), the history of a device.\n",
    ),
)


def write(target: Path, bundle: Path) -> None:
    """Write the archive: the programs, dray.pyz and the licence."""
    texts = {
        plugin.program: PROGRAM.format(shown=f"kubectl {plugin.name}", name=plugin.program)
        for plugin in PLUGINS
    }
    files = {name: (text.encode(), 0o755) for name, text in texts.items()}
    files["dray.pyz"] = (bundle.read_bytes(), 0o755)
    files["LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    # The bundle is compressed already. Without times and names the same input gives the same bytes.
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(mode="w", fileobj=packed, format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))


def manifest(
    plugin: Plugin, project: Project, archives: Mapping[Platform, Path], url: str, homepage: str
) -> str:
    """Return a manifest for krew's index; the archives will be below `url`."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": platform.arch}},
            "uri": f"{url}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": plugin.program,
            "files": [
                {"from": name, "to": "."} for name in (plugin.program, "dray.pyz", "LICENSE")
            ],
        }
        for platform, archive in archives.items()
    ]
    document: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": plugin.name},
        "spec": {
            "version": f"v{project.version}",
            "homepage": homepage,
            "shortDescription": plugin.short,
            "description": plugin.long,
            "caveats": _caveats(project),
            "platforms": platforms,
        },
    }
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are read."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, "|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _caveats(project: Project) -> str:
    return (
        f"Needs Python {' or '.join(project.pythons)} on the PATH, which krew does not install.\n"
        "The first start unpacks the plugin to ~/.cache/dray (about 100 MB).\n"
    )
