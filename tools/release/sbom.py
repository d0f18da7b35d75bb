"""Makes the SBOM: what dray's files contain or need, as a CycloneDX document.

It is read from the metadata of what was installed into the bundles: names, exact versions,
licences, and which package needs which.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release.bundle import EXTRAS
from tools.release.project import Project

SPEC_VERSION: Final = "1.6"
NAMESPACE: Final = uuid.UUID("7f1d4a52-43a5-5f0e-9c1c-5d8fd3a1b6b4")
"""Makes serial numbers that follow from the content."""


def write(
    target: Path,
    project: Project,
    folders: Iterable[Path],
    time: datetime.datetime,
) -> None:
    """Write the SBOM of dray, and of all that is installed in the folders."""
    found: dict[str, Distribution] = {
        canonicalize_name(each.name): each
        for each in distributions(path=[str(folder) for folder in folders])
    }
    components = {name: _component(each) for name, each in sorted(found.items())}
    own = components.pop("dray")
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                **own,
                "type": "application",
                "description": project.description,
                "licenses": [{"license": {"id": project.licence}}],
            },
        },
        "components": list(components.values()),
        "dependencies": [
            {"ref": _purl(each), "dependsOn": _needed(each, found)}
            for _, each in sorted(found.items())
        ],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True))
    document = {**document, "serialNumber": f"urn:uuid:{serial}"}
    target.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _component(distribution: Distribution) -> dict[str, Any]:
    purl = _purl(distribution)
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": canonicalize_name(distribution.name),
        "version": distribution.version,
        "purl": purl,
    }
    if licence := _licence(distribution):
        component["licenses"] = [licence]
    return component


def _licence(distribution: Distribution) -> dict[str, Any] | None:
    """Return the licence as the metadata states it: as an expression, or in words."""
    metadata = distribution.metadata
    if "License-Expression" in metadata:
        return {"expression": metadata["License-Expression"]}
    classifiers = metadata.get_all("Classifier") or []
    words = [each for each in classifiers if each.startswith("License :: ")]
    # Old metadata may hold the whole text of a licence in this field.
    stated = metadata["License"].strip() if "License" in metadata else ""
    name = stated if stated and "\n" not in stated else ""
    name = name or (words[0].rpartition(" :: ")[2] if words else "")
    return {"license": {"name": name}} if name else None


def _purl(distribution: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(distribution.name)}@{distribution.version}"


def _needed(distribution: Distribution, found: Mapping[str, Distribution]) -> list[str]:
    """Return what a distribution needs of those that were found: the others are not included."""
    extras = EXTRAS if canonicalize_name(distribution.name) == "dray" else ()
    contexts = [{"extra": extra} for extra in ("", *extras)]
    names = {
        canonicalize_name(requirement.name)
        for requirement in map(Requirement, distribution.requires or ())
        if requirement.marker is None
        or any(requirement.marker.evaluate(context) for context in contexts)
    }
    return sorted(_purl(found[name]) for name in names & found.keys())
