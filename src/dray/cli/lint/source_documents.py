"""Manifests with the lines and columns of their fields."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from dray.api.formats import bounded_yaml, gojson
from dray.api.types.meta import JsonObject
from dray.cli.inputs.manifests import Loader
from dray.cli.lint.findings import Finding, Suggestion
from dray.cli.lint.rules import Severity

DEFAULT_NAMESPACE = "default"
_SHOWN = 40
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class NotYaml(ValueError):
    """A text is not YAML; `line`, from 1, is where parsing failed."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line, self.problem = line, problem


class TextPosition(NamedTuple):
    """A line and a column, both from 1."""

    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file. Repeated keys are kept, as Go's decoder reports them."""

    file: str
    text: str
    """The whole file."""
    value: Any
    node: yaml.Node
    start: int
    end: int
    """The lines of the object, or of the List that it is in, from 0, the end exclusive."""
    index: int = 0
    """The position in its List."""
    default_namespace: str = DEFAULT_NAMESPACE
    """The namespace of objects that name none."""

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
        return str(self.metadata.get("namespace") or self.default_namespace)

    def value_at(self, path: str) -> Any:
        """Return the value of a field such as `spec.requests[0].name`, or None."""
        value = self.value
        for step in steps(path):
            if isinstance(value, list) and step.isdecimal():
                value = value[int(step)] if int(step) < len(value) else None
            else:
                value = value.get(step) if isinstance(value, dict) else None
        return value

    def steps_of(self, path: str) -> list[str]:
        """Return the steps of a path whose keys may have dots, as the object has them."""
        found, rest, value = [], steps(path), self.value
        while rest:
            length = 1
            if isinstance(value, dict):
                joined_keys = (n for n in range(1, len(rest) + 1) if ".".join(rest[:n]) in value)
                length = next(joined_keys, 1)
            step = ".".join(rest[:length])
            value = value.get(step) if isinstance(value, dict) else _item(value, step)
            found.append(step)
            del rest[:length]
        return found

    def error(
        self,
        path: str,
        rule: str,
        message: str,
        advice: str = "",
        suggestions: Iterable[Suggestion] = (),
    ) -> Finding:
        """Return a finding at the line of a field."""
        line, column = self.position_of(path)
        place = (self.file, line, column)
        return Finding(*place, Severity.ERROR, rule, message, advice, suggestions, self)

    def warning(
        self,
        path: str,
        rule: str,
        message: str,
        advice: str = "",
        suggestions: Iterable[Suggestion] = (),
    ) -> Finding:
        found = self.error(path, rule, message, advice, suggestions)
        return found._replace(severity=Severity.WARNING)

    def position_of(self, path: str) -> TextPosition:
        """Return the position of a field such as `spec.requests[0].name`, or of its parent.

        Steps that the file does not have are skipped: paths of a newer version have more
        steps.
        """
        node, mark = self.node, self.node.start_mark
        for step in steps(path):
            pair = child(node, step)
            if pair is not None:
                key, node = pair
                mark = key.start_mark
        return TextPosition(mark.line + 1, mark.column + 1)


def _item(value: Any, step: str) -> Any:
    is_item = isinstance(value, list) and step.isdecimal() and int(step) < len(value)
    return value[int(step)] if is_item else None


def steps(path: str) -> list[str]:
    """Return the names and indexes of a path such as `spec.limits[nvidia.com/gpu]`."""
    return [match[2] if match[1] is None else match[1] for match in _STEP.finditer(path)]


def joined(path: Iterable[str]) -> str:
    """Return the path of some names and indexes."""
    text = ""
    for step in path:
        if step.isdecimal() or not step.isalnum():
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def short(value: Any) -> str:
    """Return a value on one line, shortened."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def child(node: yaml.Node | None, step: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key node of a step, for its line, and the value node; None if it is missing."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        return node.value[int(step)], node.value[int(step)]
    return None


def documents(file: str, text: str, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Document]:
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
            value = value_of(loader, node)
            if value is not None:
                whole = Document(file, text, value, node, start, end, 0, namespace)
                yield from _taken_apart(whole)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise NotYaml(line, error.problem or str(error)) from error
    except yaml.YAMLError as error:
        raise NotYaml(1, " ".join(str(error).split())) from error
    finally:
        loader.dispose()


def _taken_apart(whole: Document) -> Iterator[Document]:
    value = whole.value
    items = value.get("items") if isinstance(value, dict) else None
    is_list = isinstance(items, list) and value.get("kind") == "List"
    pair = child(whole.node, "items") if is_list else None
    if pair is None or not isinstance(items, list):
        yield whole
        return
    for index, (item, node) in enumerate(zip(items, pair[1].value, strict=True)):
        yield dataclasses.replace(whole, value=item, node=node, index=index)


def value_of(loader: Any, node: yaml.Node) -> Any:
    """Return the value of a node, with repeated keys kept."""
    if isinstance(node, yaml.SequenceNode):
        return [value_of(loader, item) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    loader.flatten_mapping(node)
    pairs = [
        (str(loader.construct_object(key)), value_of(loader, item)) for key, item in node.value
    ]
    values = dict(pairs)
    return values if len(values) == len(pairs) else gojson.ObjectWithDuplicateKeys(pairs)
