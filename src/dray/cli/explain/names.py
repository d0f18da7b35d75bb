"""The names of what `dray explain` explains. Imports little: a server may know the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dray.api import kinds
from dray.api.kinds import Kind
from dray.cli.command_errors import WrongUsage

POD_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""Where the spec of a pod is."""
WORKLOADS: Final = frozenset(POD_SPECS) - {"Pod"}
SHORT: Final = {
    "claim": "ResourceClaim",
    "claims": "ResourceClaim",
    "template": "ResourceClaimTemplate",
}
_CLAIMS_AND_PODS = ("ResourceClaim", "ResourceClaimTemplate", "Pod")
_EXPLAINED = "pod, claim, template, deployment, replicaset, statefulset, daemonset, job, namespace"


class ObjectName(NamedTuple):
    kind: Kind
    name: str


def parse_names(words: Sequence[str]) -> list[ObjectName]:
    """Return the objects that TYPE/NAME … or TYPE NAME … name."""
    if words and not any("/" in word for word in words):
        kind = _kind(words[0], words[0])
        return [ObjectName(kind, name) for name in words[1:]]
    names = []
    for word in words:
        type_name, slash, name = word.partition("/")
        if not slash or not name:
            raise WrongUsage(f"{word}: write TYPE/NAME, or TYPE NAME and nothing else")
        names.append(ObjectName(_kind(type_name, word), name))
    return names


def _kind(type_name: str, word: str) -> Kind:
    kind = kinds.by_name(SHORT.get(type_name.lower(), type_name))
    if kind is None or kind.kind not in {*_CLAIMS_AND_PODS, *WORKLOADS, "Namespace"}:
        raise WrongUsage(f"{word}: only these types can be explained: {_EXPLAINED}")
    return kind
