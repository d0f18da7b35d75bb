"""Lint's advice for objects that `dray apply` sends to a server.

Below an error of the server stands what lint finds in the object, and how to correct it. Objects
that the server accepts and that cannot work are warned about.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterable, Iterator

import click

from dray.api import features as gates
from dray.api import kinds
from dray.api.types import dra
from dray.api.types.meta import JsonObject
from dray.api.types.nodes import Node
from dray.cli.inputs import cluster_objects
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.inputs.manifests import Manifest
from dray.cli.lint import rules
from dray.cli.lint.checks import pod_specs
from dray.cli.lint.findings import FileFix, Finding
from dray.cli.lint.linter import Linter, Texts
from dray.cli.lint.rules import CheckStage
from dray.cli.lint.source_documents import DEFAULT_NAMESPACE
from dray.cli.session.connection import Session

READ_SECONDS = 3.0
"""The most that reading the cluster for advice may delay a command."""
MAX_NODES = 1000
"""The most nodes for which a command makes the scheduling decision as advice."""
_READ = frozenset(
    {
        *(Node, dra.ResourceSlice, dra.DeviceClass, dra.DeviceTaintRule),
        *(dra.ResourceClaim, dra.ResourceClaimTemplate),
    }
)


_BY_CLUSTER = frozenset(
    {
        *("does-not-fit", "matches-nothing", "missing-class", "missing-claim", "no-node"),
        *("selector-error", "unknown-extended-resource"),
    }
)
"""Rules that need a cluster to find something."""


class Advice:
    """The findings in some files, by object. `context` is that of the cluster."""

    def __init__(
        self, texts: Texts, namespace: str, context: str, objects: ClusterObjects | None = None
    ) -> None:
        self._context = context
        features = objects.features if objects else gates.DEFAULT
        # Without the cluster nobody knows which claims exist in it.
        ignored = () if objects else ("missing-claim",)
        linter = Linter(features, objects, ignored, namespace or DEFAULT_NAMESPACE)
        self._findings = linter.check(texts).findings
        self._shown: set[int] = set()

    def on_error(self, manifest: Manifest, message: str) -> Iterator[str]:
        """Yield lines about an object that the server rejected with a message."""
        yield from self._lines(self._about(manifest), message)

    def on_file(self, file: str) -> Iterator[str]:
        """Yield lines about a file that is not YAML."""
        found = [item for item in self._findings if item.file == file and item.document is None]
        yield from self._lines(found, "")

    def warnings(self, manifest: Manifest) -> Iterator[str]:
        """Yield lines about an object that was accepted and cannot work."""
        yield from self._lines(filter(_is_serious, self._about(manifest)), "")

    def _about(self, manifest: Manifest) -> Iterator[Finding]:
        own = manifest.document
        for finding in self._findings:
            document = finding.document
            if document is not None and finding.file == manifest.source and document.value == own:
                yield finding

    def _lines(self, findings: Iterable[Finding], message: str) -> Iterator[str]:
        commands: dict[str, None] = {}
        for finding in findings:
            # Two objects may be equal.
            if id(finding) not in self._shown:
                self._shown.add(id(finding))
                yield _text(finding, message)
                if finding.fix is not None:
                    commands[self._command(finding, finding.fix)] = None
        for command in commands:
            yield f"    Correct it: {command}"

    def _command(self, finding: Finding, fix: FileFix) -> str:
        unsafe = "" if fix.is_correction else " --unsafe-fixes"
        against = f" --against {self._context}" if finding.rule in _BY_CLUSTER else ""
        return f"dray lint --fix{unsafe} {fix.file}{against}"


def _is_serious(finding: Finding) -> bool:
    rule = rules.RULES[finding.rule]
    # Of a repeated field the server sees one value only.
    is_late = rule.stage >= CheckStage.REFERENCES or rule.name == "repeated-field"
    return is_late and not rule.is_optional


def _text(finding: Finding, message: str) -> str:
    """Return the lines of a finding, without what the server has said already."""
    place = f"{finding.file}:{finding.line}:{finding.column}"
    first = finding.message.split("\n", 1)[0]
    said = first.partition(": ")[2] or first
    advice, _, rest = finding.advice.partition("\n")
    if finding.advice and said in message:
        first, advice, rest = advice, rest, ""
    below = "\n".join(filter(None, (advice, rest)))
    styled = f"\n{click.style(textwrap.indent(below, '    '), fg='green')}" if below else ""
    return f"{place}: {first} [{finding.rule}]{styled}"


async def read(session: Session, documents: Iterable[JsonObject]) -> ClusterObjects | None:
    """Read the objects of the cluster that advice needs; None if none are needed.

    Also None if that takes long: the advice is not worth the wait.
    """
    if not any(map(_needs_devices, documents)):
        return None
    try:
        async with asyncio.timeout(READ_SECONDS):
            objects = await cluster_objects.from_cluster(session, types=_READ)
    except TimeoutError:
        return None
    if len(objects.of(Node)) > MAX_NODES:
        objects.unread[kinds.NODE.kind] = f"there are more than {MAX_NODES}"
    return objects


def _needs_devices(document: JsonObject) -> bool:
    kind = str(document.get("kind", ""))
    if kind.lower().startswith("resourceclaim"):
        return True
    spec = pod_specs.at(document, pod_specs.POD_SPECS.get(kind, "spec"))
    if pod_specs.at(spec, "resourceClaims"):
        return True
    resources = [pod_specs.at(item, "resources") for _, item in pod_specs.containers(spec)]
    amounts = [pod_specs.at(item, name) for item in resources for name in ("limits", "requests")]
    return any(
        "/" in str(name) for amount in amounts if isinstance(amount, dict) for name in amount
    )
