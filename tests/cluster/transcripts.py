"""Recorded conversations with a real control plane: what was done, and what was there then."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import yaml

from dray.api.types.meta import JsonObject
from tests.recorded import GOLDEN

_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_SUFFIX = re.compile(rf"-({_SAFE}{{8,10}}|{_SAFE}{{5}})(?=-|$)")
_NODE = re.compile(r"^(node-\d|small-0)$")
_DEVICE = re.compile(r"^gpu-\d$")
_CHANGING = re.compile(r"^(uid|shareID|.*[tT]imestamp|.*Time|timeAdded|lastApplied.*)$")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_EXPLANATION = "dray.dev/explanation"


@dataclass(frozen=True)
class Step:
    """One command and what it printed."""

    words: list[str]
    output: str
    sent: tuple[JsonObject, ...] = ()
    """The objects that came from another command, through a pipe."""

    @property
    def verb(self) -> str:
        return self.words[1] if self.words[0] == "kubectl" else self.words[0]

    @property
    def subjects(self) -> list[str]:
        return [word for word in self.words[2:] if not word.startswith("-")]

    def option(self, *names: str) -> str:
        for number, word in enumerate(self.words):
            name, _, value = word.partition("=")
            if name in names:
                return value or self.words[number + 1]
        return ""


@dataclass(frozen=True)
class Transcript:
    name: str
    steps: list[Step]
    manifests: dict[str, list[JsonObject]]


def present(*prefixes: str) -> list[str]:
    """Return the names of the transcripts that start so."""
    return [name for name in GOLDEN.parents("*/output.txt") if name.startswith(prefixes)]


def read(name: str) -> Transcript:
    manifests = {
        PurePath(file).name: [each for each in yaml.safe_load_all(GOLDEN.read(file)) if each]
        for file in GOLDEN.names(f"{name}/*.yaml")
    }
    return Transcript(name, list(_steps(GOLDEN.read(f"{name}/output.txt"))), manifests)


def _steps(text: str) -> Iterator[Step]:
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = block.partition("\n")
        words = shlex.split(command)
        if words[:1] == ["printf"]:
            manifest = words[1].replace("\\n", "\n")
            yield Step(words[3:], output.strip(), tuple(yaml.safe_load_all(manifest)))
        elif words:
            yield Step(words, output.strip())


def items(output: str) -> list[JsonObject]:
    """The objects that `-o yaml` printed."""
    document = yaml.safe_load(output)
    return document["items"] if document.get("kind") == "List" else [document]


def claim_view(claim: JsonObject) -> JsonObject:
    """A claim less what differs from run to run."""
    metadata = claim["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(_LAST_APPLIED, None)
    annotations.pop(_EXPLANATION, None)
    owners = metadata.get("ownerReferences") or ()
    return {
        "name": _plain(metadata.get("generateName") or metadata["name"]),
        "annotations": annotations,
        "labels": metadata.get("labels") or {},
        "finalizers": metadata.get("finalizers") or [],
        "owners": [(owner["kind"], _plain(owner["name"])) for owner in owners],
        "isDeleted": "deletionTimestamp" in metadata,
        "spec": _plain(claim["spec"]),
        "status": _without_order(_plain(claim.get("status") or {})),
    }


def pod_view(pod: JsonObject) -> JsonObject:
    """What scheduler and controllers made of a pod; kubelets differ."""
    status = pod["status"]
    return {
        "name": _plain(pod["metadata"].get("generateName") or pod["metadata"]["name"]),
        "hasNode": bool(pod["spec"].get("nodeName")),
        "claims": _plain(status.get("resourceClaimStatuses") or []),
        "extended": _plain(status.get("extendedResourceClaimStatus") or {}),
        "ofNode": _plain(status.get("nodeAllocatableResourceClaimStatuses") or []),
    }


def plain_view(found: JsonObject) -> JsonObject:
    """What any object asks for and has become."""
    return {
        "name": found["metadata"]["name"],
        "spec": _plain(found["spec"]),
        "status": _plain(found.get("status") or {}),
    }


def refusal_of(pod: JsonObject) -> str:
    """Kubernetes' own sentence about why a pod has no node."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", "")).partition(" preemption: ")[0]
    return ""


def anywhere(sentence: str) -> str:
    """A sentence, whichever device of whichever node it is about."""
    return re.sub(r"(node-\d|small-0)/gpu-\d", "(node)/(device)", sentence)


def _without_order(status: JsonObject) -> JsonObject:
    """Users are reserved in the order in which they come."""
    users = status.get("reservedFor")
    if users:
        return {**status, "reservedFor": sorted(users, key=lambda user: str(user["name"]))}
    return status


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "(changing)" if _CHANGING.match(key) else _plain(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        value = _NODE.sub("(node)", value)
        value = _DEVICE.sub("gpu-(number)", value)
        return _SUFFIX.sub("-(suffix)", value)
    return value
