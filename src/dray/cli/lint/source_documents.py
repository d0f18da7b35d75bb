"""Manifests with the line numbers of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from dray.api.formats import bounded_yaml, gojson
from dray.api.types.meta import JsonObject
from dray.cli.inputs.manifests import Loader
from dray.cli.lint.findings import Finding, Severity

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class NotYaml(ValueError):
    """A text is not YAML; `line` is where parsing failed."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line, self.problem = line, problem


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file. Repeated keys are kept, as Go's decoder reports them."""

    file: str
    value: Any
    node: yaml.Node
    start: int
    end: int
    """The lines of the object, from 0, the end exclusive."""

    @property
    def api_version(self) -> str:
        return str(self.value.get("apiVersion", "")) if isinstance(self.value, dict) else ""

    @property
    def kind(self) -> str:
        return str(self.value.get("kind", "")) if isinstance(self.value, dict) else ""

    @property
    def metadata(self) -> JsonObject:
        metadata = self.value.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "default")

    def value_at(self, path: str) -> Any:
        """Return the value of a field such as `spec.requests[0].name`, or None."""
        value = self.value
        for match in _STEP.finditer(path):
            step = match[1] if match[1] is not None else match[2]
            if isinstance(value, list) and step.isdecimal():
                value = value[int(step)] if int(step) < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value

    def error(self, path: str, rule: str, message: str, advice: str = "") -> Finding:
        """Return a finding at the line of a field."""
        return Finding(self.file, self.line_of(path), Severity.ERROR, rule, message, advice)

    def warning(self, path: str, rule: str, message: str, advice: str = "") -> Finding:
        return self.error(path, rule, message, advice)._replace(severity=Severity.WARNING)

    def line_of(self, path: str) -> int:
        """Return the line, from 1, of a field such as `spec.requests[0].name`, or of its parent.

        Steps that the file does not have are skipped: paths of a newer version have more
        steps.
        """
        node, line = self.node, self.node.start_mark.line
        for match in _STEP.finditer(path):
            pair = _child(node, match[1] if match[1] is not None else match[2])
            if pair is not None:
                key, node = pair
                line = key.start_mark.line
        return line + 1


def _child(node: yaml.Node, step: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key node of a step, for its line, and the value node; None if it is missing."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        return node.value[int(step)], node.value[int(step)]
    return None


def documents(file: str, text: str) -> Iterator[Document]:
    """Yield the objects of a file; Lists become their items. Raises NotYaml."""
    try:
        # The composer below recurses, so that only what is known to be shallow reaches it.
        bounded_yaml.check(text, bounded_yaml.FILE)
    except bounded_yaml.YamlError as error:
        raise NotYaml(error.line, error.problem) from error
    loader = Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            start, end = node.start_mark.line, node.end_mark.line + 1
            value = _value(loader, node)
            if value is not None:
                yield from _taken_apart(file, value, node, start, end)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise NotYaml(line, error.problem or str(error)) from error
    except yaml.YAMLError as error:
        raise NotYaml(1, " ".join(str(error).split())) from error
    finally:
        loader.dispose()


def _taken_apart(
    file: str, value: Any, node: yaml.Node, start: int, end: int
) -> Iterator[Document]:
    items = value.get("items") if isinstance(value, dict) else None
    is_list = isinstance(items, list) and value.get("kind") == "List"
    pair = _child(node, "items") if is_list else None
    if pair is None or not isinstance(items, list):
        yield Document(file, value, node, start, end)
        return
    for item, child in zip(items, pair[1].value, strict=True):
        yield Document(file, item, child, start, end)


def _value(loader: Any, node: yaml.Node) -> Any:
    """Return the value of a node, with repeated keys kept."""
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    loader.flatten_mapping(node)
    pairs = [(str(loader.construct_object(key)), _value(loader, item)) for key, item in node.value]
    values = dict(pairs)
    return values if len(values) == len(pairs) else gojson.ObjectWithDuplicateKeys(pairs)
