"""The output of `dray explain`: verdict and fix first, then stages, then the devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from dray.cli.explain import styled_lines
from dray.cli.explain.documents import Documents
from dray.cli.explain.targets import ExplainTarget
from dray.cli.output import formats
from dray.cli.output.formats import OutputFormat
from dray.explain import reporting
from dray.explain.claim_explanation import Explanation
from dray.explain.pod import pod_progress_text
from dray.explain.pod.obstacles import BehindOthers
from dray.explain.pod.pod_explanation import PodExplanation
from dray.explain.preemption import preemption_text
from dray.explain.preemption.pod_preemption import PodPreemption
from dray.explain.reporting import Reported
from dray.explain.text import phrases


class Explained(NamedTuple):
    """The result for one target: a pod with its claims, or claims by themselves."""

    target: ExplainTarget
    pod: PodExplanation | None
    claims: Explanation | None
    """The explanation of claims without a pod."""
    preemption: PodPreemption | None = None
    """The effect of preemption, where the cluster is known to have it or it is under way."""

    @property
    def reported(self) -> Reported | None:
        return self.pod if self.pod is not None else self.claims

    @property
    def is_good(self) -> bool:
        return self.reported is not None and reporting.is_good(self.reported)

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
        self._bars = styled_lines.has_bars(is_wide=is_wide)

    def show(self, groups: Sequence[ExplainedGroup]) -> None:
        is_first = True
        for group in groups:
            for block in self._blocks(group):
                if not is_first:
                    styled_lines.echo("")
                is_first = False
                for line in filter(None, block):
                    styled_lines.echo(line)

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
        reported = explained.reported
        if reported is None:
            yield f"{explained.target.title}: cannot be explained with these rights"
        else:
            text = reporting.text(reported, explained.preemption, bars=self._bars)
            yield from styled_lines.styled(text, self._source.options, is_live=self._source.is_live)


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
    return reporting.document(explained.target.title, explained.reported, explained.preemption)
