"""The command line prints what kubectl 1.37 printed, from the recorded transcripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from dray.api import features
from dray.api.formats import serialization
from dray.cli.inputs import manifests
from dray.cli.lint import source_documents
from dray.cli.lint.checks import object_checks, reference_checks
from dray.cli.lint.rules import Severity
from dray.cli.verbs.descriptions import command as describe
from tests.recorded import GOLDEN

_COMMAND = re.compile(r"^\$ kubectl (.*)\n((?:(?!^\$ ).*\n?)*)", re.MULTILINE)
_READING = ("get", "describe", "logs", "events", "explain", "version", "api-resources")


class Step(NamedTuple):
    command: str
    output: str


def _steps(directory: str) -> list[Step]:
    transcript = GOLDEN.read(f"{directory}/output.txt")
    return [Step(match[1], match[2].rstrip("\n")) for match in _COMMAND.finditer(transcript)]


@pytest.mark.parametrize("directory", GOLDEN.parents("*/output.txt"))
def test_documents_are_written_as_kubectl_writes_them(directory: str) -> None:
    for step in _steps(directory):
        if "-o yaml" in step.command and step.output.startswith("apiVersion:"):
            document = yaml.load(step.output, manifests.Loader)
            assert serialization.write_yaml(document).rstrip("\n") == step.output
        elif "-o json" in step.command and step.output.startswith("{\n"):
            assert serialization.write_json(json.loads(step.output), indent=4) == step.output


@pytest.mark.parametrize("directory", GOLDEN.parents("*/output.txt"))
def test_objects_are_described_as_kubectl_describes_them(directory: str) -> None:
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for step in _steps(directory):
        verb = step.command.split()[0]
        if verb not in _READING:
            known.clear()
        elif verb == "get" and "-o yaml" in step.command and step.output.startswith("apiVersion:"):
            for document in manifests.documents("", step.output):
                known[_described_as(document)] = document
        elif verb == "describe":
            for text in re.split(r"\n\n+(?=Name: )", step.output):
                _compare(text, known, step.command)


def _compare(text: str, known: dict[tuple[str, str], dict[str, Any]], command: str) -> None:
    name = re.match(r"Name: +(\S+)", text)
    kind = re.search(r"^Kind: +(\S+)", text, re.MULTILINE)
    if name is None:
        return
    is_pod = " pod" in command
    document = known.get((kind[1] if kind else "Pod", name[1])) if kind or is_pod else None
    if document is not None and _is_same(document, text):
        ours = describe.text(document, [])
        assert list(_without_events(ours)) == list(_without_events(text))


def _described_as(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _is_same(document: dict[str, Any], text: str) -> bool:
    """Whether nothing happened to the object between the two commands."""
    version = re.search(r"^ *Resource Version: +(\S+)", text, re.MULTILINE)
    return version is None or version[1] == document["metadata"]["resourceVersion"]


def _without_events(text: str) -> Iterator[str]:
    """Lines up to the events, whose column may have set the width of the one above."""
    for line in text.split("\n"):
        if line.startswith("Events:"):
            return
        yield re.sub(r" {2,}(?=\S)", "  ", line).rstrip()


@pytest.mark.parametrize("directory", GOLDEN.parents("*/status.json"))
def test_lint_finds_what_the_server_refused_and_nothing_else(directory: str) -> None:
    recorded = GOLDEN.json(f"{directory}/status.json")
    answers = recorded if isinstance(recorded, list) else [recorded]
    file = f"{directory}/manifest.yaml"
    documents = list(source_documents.documents(file, GOLDEN.read(file)))
    found = [
        each for document in documents for each in object_checks.check(document, features.DEFAULT)
    ]
    found += reference_checks.check(documents, None)
    if any(answer["code"] >= 400 for answer in answers):
        assert found
    else:
        # kubectl drops the first of two fields of one name before the server sees them.
        errors = [each for each in found if each.severity is Severity.ERROR]
        assert {error.rule for error in errors} <= {"repeated-field"}
