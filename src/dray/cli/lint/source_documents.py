"""Manifests with the places of everything in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from dray.api.formats import gojson
from dray.api.types.meta import JsonObject
from dray.cli.inputs.manifests import Loader

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class NotYaml(ValueError):
    """A text that cannot be read, and the line at which it goes wrong."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line, self.problem = line, problem


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file; keys that occur twice are remembered, as Go's decoder does."""

    file: str
    value: Any
    node: yaml.Node
    start: int
    end: int
    """The lines of the file that hold it, from 0, the end exclusive."""

    @property
    def api_version(self) -> str:
        return str(self.value.get("apiVersion", "")) if isinstance(self.value, dict) else ""

    @property
    def kind(self) -> str:
        return str(self.value.get("kind", "")) if isinstance(self.value, dict) else ""

    @property
    def metadata(self) -> JsonObject:
        found = self.value.get("metadata")
        return found if isinstance(found, dict) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "default")

    def value_at(self, path: str) -> Any:
        """The value of a field such as `spec.requests[0].name`; None where there is none."""
        value = self.value
        for match in _STEP.finditer(path):
            step = match[1] if match[1] is not None else match[2]
            if isinstance(value, list) and step.isdecimal():
                value = value[int(step)] if int(step) < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value

    def line_of(self, path: str) -> int:
        """The line, from 1, of a field such as `spec.requests[0].name`, or of what should have it.

        Steps that the file does not have are passed over: a path of a newer version has some.
        """
        node, line = self.node, self.node.start_mark.line
        for match in _STEP.finditer(path):
            found = _child(node, match[1] if match[1] is not None else match[2])
            if found is not None:
                key, node = found
                line = key.start_mark.line
        return line + 1


def _child(node: yaml.Node, step: str) -> tuple[yaml.Node, yaml.Node] | None:
    """What to point at for a step, and the node that it leads to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        return node.value[int(step)], node.value[int(step)]
    return None


def documents(file: str, text: str) -> Iterator[Document]:
    """The objects of a file; Lists are taken apart."""
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
    found = _child(node, "items") if is_list else None
    if found is None or not isinstance(items, list):
        yield Document(file, value, node, start, end)
        return
    for item, child in zip(items, found[1].value, strict=True):
        yield Document(file, item, child, start, end)


def _value(loader: Any, node: yaml.Node) -> Any:
    """The value of a node, with repeated keys remembered."""
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, each) for each in node.value]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    loader.flatten_mapping(node)
    pairs = [(str(loader.construct_object(key)), _value(loader, each)) for key, each in node.value]
    values = dict(pairs)
    return values if len(values) == len(pairs) else gojson.ObjectWithDuplicateKeys(pairs)
