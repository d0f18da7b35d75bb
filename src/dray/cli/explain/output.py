"""The output of `dray explain`: verdict and fix first, then stages, then the devices."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from dray.cli import printed_commands
from dray.cli.explain.documents import Documents
from dray.cli.explain.targets import ExplainTarget
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.pod import pod_fix_text, pod_progress_text
from dray.explain.pod.obstacles import BehindOthers
from dray.explain.pod.pod_explanation import PodExplanation
from dray.explain.preemption import preemption_text
from dray.explain.preemption.pod_preemption import PodPreemption
from dray.explain.text import explanation_text, phrases

_COMMAND = re.compile(r"(^ +|: )(dray [^`]*)$")
"""A command at the end of a line, or alone on it."""


class Explained(NamedTuple):
    """The result for one target: a pod with its claims, or claims by themselves."""

    target: ExplainTarget
    pod: PodExplanation | None
    claims: Explanation | None
    """The explanation of claims without a pod."""
    preemption: PodPreemption | None = None
    """The effect of preemption, where the cluster is known to have it or it is under way."""

    @property
    def explanation(self) -> Explanation | None:
        return self.pod.explanation if self.pod is not None else self.claims

    @property
    def is_good(self) -> bool:
        if self.pod is not None and self.pod.progress.blocked is not None:
            return False
        if self.explanation is None:
            return self.pod is not None
        return self.explanation.outcome in (Outcome.ALLOCATED, Outcome.FITS)

    @property
    def has_warnings(self) -> bool:
        return self.pod is not None and bool(self.pod.progress.warnings)

    @property
    def key(self) -> object:
        """Return a value that is equal for pods that wait for the same reason."""
        if self.pod is None:
            return self.target.title
        findings = [
            pod_progress_text.sentence(item)
            for item in self.pod.progress.findings
            if not isinstance(item, BehindOthers)
        ]
        evicting = preemption_text.lines(self.preemption) if self.preemption is not None else ()
        return (*findings, *evicting)


class ExplainedGroup(NamedTuple):
    title: str
    members: list[Explained]
    is_single: bool


class Printer:
    """Prints explanations as text."""

    def __init__(self, source: Documents, *, is_wide: bool) -> None:
        self._source = source
        self._bars = is_wide or sys.stdout.isatty()
        self._color = False if os.environ.get("NO_COLOR") else None

    def show(self, groups: Sequence[ExplainedGroup]) -> None:
        is_first = True
        for group in groups:
            for block in self._blocks(group):
                if not is_first:
                    self._echo("")
                is_first = False
                for line in filter(None, block):
                    self._echo(line)

    def _blocks(self, group: ExplainedGroup) -> Iterator[list[str]]:
        if group.is_single:
            yield from (list(self._lines(item)) for item in group.members)
            return
        yield [click.style(_counts(group), bold=True)]
        by_key: dict[object, list[Explained]] = {}
        for item in group.members:
            if not item.is_good or item.has_warnings:
                by_key.setdefault(item.key, []).append(item)
        for first, *others in by_key.values():
            lines = list(self._lines(first))
            if others:
                names = [_name(item) for item in others]
                lines.append(f"  the same holds for {phrases.limited(names, len(names), 'pod')}")
            yield lines

    def _lines(self, explained: Explained) -> Iterator[str]:
        if explained.pod is not None:
            yield from self._pod_lines(explained.pod, explained.preemption)
        elif explained.claims is None:
            yield f"{explained.target.title}: cannot be explained with these rights"
        else:
            text = explanation_text.text(explained.claims, bars=self._bars)
            yield from map(self._styled, text.splitlines())

    def _pod_lines(
        self, explained: PodExplanation, preemption: PodPreemption | None
    ) -> Iterator[str]:
        stages = pod_progress_text.lines(explained.progress, pod_fix_text.fixes(explained))
        yield from map(self._styled, stages)
        if preemption is not None:
            yield from (f"  {line}" for line in preemption_text.lines(preemption))
        yield from pod_fix_text.device_lines(explained, bars=self._bars)

    def _styled(self, line: str) -> str:
        """Return the line with colours, and with commands that go to the same cluster."""
        command = _COMMAND.search(line)
        if command and not self._source.is_live:
            line = f"{line[: command.start()]}." if command.start() else ""
        elif command:
            line = printed_commands.for_cluster(line, self._source.options)
        if not line:
            return ""
        if re.match(r" *(fix|or): ", line):
            return click.style(line, fg="green")
        if "✗" in line:
            return re.sub(r"✗ \w+", lambda match: click.style(match[0], fg="red"), line)
        return line if line.startswith(" ") else click.style(line, bold=True)

    def _echo(self, line: str) -> None:
        click.echo(line, color=self._color)


def _name(explained: Explained) -> str:
    pod = explained.target.pod
    return str(pod.metadata.key) if pod is not None else explained.target.title


def _counts(group: ExplainedGroup) -> str:
    pods = [item for item in group.members if item.pod is not None]
    waiting = sum(not item.is_good for item in pods)
    others = [item for item in group.members if item.pod is None and not item.is_good]
    noun = "pod" if len(pods) == 1 else "pods"
    words = f"{group.title}: {len(pods)} {noun}"
    if waiting:
        words += f", {waiting} waiting or failing"
    elif pods:
        words += ", none waiting or failing"
    if others:
        types = sorted({item.target.title.partition("/")[0] for item in others})
        nouns = [name if len(others) == 1 else f"{name}s" for name in types]
        words += f"; {len(others)} {' and '.join(nouns)} that cannot be allocated"
    return words


def show_documents(groups: Sequence[ExplainedGroup], format: OutputFormat) -> None:
    formats.show_document(document(groups), format)


def document(groups: Sequence[ExplainedGroup]) -> Any:
    """Return one explanation as an object, several as a list of objects."""
    documents = [_document(item) for group in groups for item in group.members]
    return documents[0] if len(documents) == 1 else documents


def _document(explained: Explained) -> dict[str, Any]:
    about: dict[str, Any] = {"about": explained.target.title}
    if explained.preemption is not None:
        about["preemption"] = preemption_text.as_json(explained.preemption)
    if explained.pod is not None:
        return {**about, **pod_fix_text.document(explained.pod)}
    return {**about, **(explanation_text.as_json(explained.claims) if explained.claims else {})}
