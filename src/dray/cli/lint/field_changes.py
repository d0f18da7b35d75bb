"""Changes of single fields of a manifest, made in its text: comments and layout stay.

Each change knows what it does to the value and to the text. `edited` makes the text, reads it again
and compares: a text that does not say what the changed value says is not returned.
"""

from __future__ import annotations

import copy
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from dray.api.formats import serialization
from dray.cli.lint import source_documents
from dray.cli.lint.source_documents import Document, NotYaml, child, steps

INDENT = 2
_BLOCK_STYLES = ("|", ">")


class TextEdit(NamedTuple):
    """Replaces the characters from `start` up to `end`."""

    start: int
    end: int
    text: str


class SetField(NamedTuple):
    """Sets a field or an item of a list; one that is missing is added to its parent."""

    path: str
    value: Any

    def on_value(self, root: Any) -> None:
        parent, last = _parent(root, self.path)
        if isinstance(parent, list):
            parent[int(last) : int(last) + 1] = [self.value]
        else:
            parent[last] = self.value

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        node, missing = text.node, steps(self.path)
        parent: yaml.Node = node
        while missing and (pair := child(node, missing[0])) is not None:
            parent, node = node, pair[1]
            del missing[0]
        value = self.value
        for step in reversed(missing[1:]):
            value = {step: value}
        if missing:
            yield text.addition(node, missing[0], value)
        else:
            yield text.replacement(parent, node, value)


class RemoveField(NamedTuple):
    path: str

    def on_value(self, root: Any) -> None:
        parent, last = _parent(root, self.path)
        del parent[int(last) if isinstance(parent, list) else last]

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        *above, last = steps(self.path)
        yield text.removal(text.at(above), last)


class RenameField(NamedTuple):
    path: str
    name: str

    def on_value(self, root: Any) -> None:
        parent, last = _parent(root, self.path)
        pairs = [(self.name if key == last else key, value) for key, value in parent.items()]
        parent.clear()
        parent.update(pairs)

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        *above, last = steps(self.path)
        pair = child(text.at(above), last)
        if pair is not None:
            yield TextEdit(*text.span(pair[0]), self.name)


class NestFields(NamedTuple):
    """Moves fields of an object below one of them that is new, as `exactly` of a request."""

    path: str
    names: tuple[str, ...]
    below: str

    def on_value(self, root: Any) -> None:
        value = _at(root, self.path)
        value[self.below] = {name: value.pop(name) for name in self.names}

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        node = text.at(steps(self.path))
        if isinstance(node, yaml.MappingNode):
            yield text.nesting(node, self.names, self.below)


class LiftField(NamedTuple):
    """Moves a field one level up."""

    path: str

    def on_value(self, root: Any) -> None:
        *above, last = steps(self.path)
        parent = _at_steps(root, above)
        _at_steps(root, above[:-1])[last] = parent.pop(last)

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        *above, last = steps(self.path)
        inner, outer = text.at(above), text.at(above[:-1])
        pair = child(inner, last)
        if pair is not None and inner is not None and outer is not None:
            yield text.removal(inner, last)
            yield text.moved(*pair, outer)


class UnwrapField(NamedTuple):
    """Writes the fields of an object, or of one in it, in place of the object."""

    path: str
    below: tuple[str, ...] = ()

    def on_value(self, root: Any) -> None:
        parent, last = _parent(root, self.path)
        parent.update(_at_steps(parent.pop(last), self.below))

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        *above, last = steps(self.path)
        pair = child(text.at(above), last)
        inner = text.at([*above, last, *self.below])
        if pair is not None and inner is not None:
            yield text.unwrapping(pair[0], inner)


class WrapField(NamedTuple):
    """Makes a list of an object, with the object as its only item."""

    path: str

    def on_value(self, root: Any) -> None:
        parent, last = _parent(root, self.path)
        parent[last] = [parent[last]]

    def on_text(self, text: _Text) -> Iterator[TextEdit]:
        node = text.at(steps(self.path))
        if node is not None:
            yield text.wrapping(node)


FieldChange = (
    SetField | RemoveField | RenameField | NestFields | LiftField | UnwrapField | WrapField
)


def edited(document: Document, changes: Sequence[FieldChange]) -> str | None:
    """Return the file after changes of one of its objects; None if the text cannot say them."""
    expected = changed_value(document.value, changes)
    if expected is None:
        return None
    text = _Text(document)
    try:
        edits = [edit for change in changes for edit in change.on_text(text)]
        result = applied(document.text, edits)
    except _CannotEdit:
        result = None
    if result is not None and _says(document, result, expected):
        return result
    return _rewritten(document, expected)


def changed_value(value: Any, changes: Iterable[FieldChange]) -> Any | None:
    """Return a copy of an object after changes; None if they do not fit it."""
    if not isinstance(value, dict):
        return None
    changed = copy.deepcopy(dict(value))
    try:
        for change in changes:
            change.on_value(changed)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return None
    return changed


def applied(text: str, edits: Iterable[TextEdit]) -> str | None:
    """Return a text after edits; None if they overlap."""
    end = len(text)
    for edit in sorted(edits, reverse=True):
        if edit.end > end:
            return None
        text = text[: edit.start] + edit.text + text[edit.end :]
        end = edit.start
    return text


def difference(before: str, after: str) -> TextEdit:
    """Return the one edit that makes a text of another."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = _equal_lines(old, new)
    last = _equal_lines(old[first:][::-1], new[first:][::-1])
    start = sum(map(len, old[:first]))
    end = start + sum(map(len, old[first : len(old) - last]))
    return TextEdit(start, end, "".join(new[first : len(new) - last]))


def _equal_lines(lines: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = zip(lines, others, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def reread(document: Document, text: str) -> Document | None:
    """Return the document in a text that differs from its file in this document only."""
    grown = text.count("\n") - document.text.count("\n")
    lines = text.split("\n")
    own = "\n".join(lines[document.start : document.end + grown])
    try:
        found = list(source_documents.documents(document.file, own, document.default_namespace))
    except NotYaml:
        return None
    return found[document.index] if document.index < len(found) else None


def _says(document: Document, text: str, expected: Any) -> bool:
    found = reread(document, text)
    return found is not None and found.value == expected


def _rewritten(document: Document, expected: Any) -> str | None:
    """Return the file with the whole object written again, unless comments would be lost."""
    lines = document.text.splitlines(keepends=True)
    start, end = document.start, min(document.end, len(lines))
    while end > start + 1 and lines[end - 1].startswith(("---", "...")):
        end -= 1
    is_alone = document.node.start_mark.line == start and not document.index
    if not is_alone or any("#" in line for line in lines[start:end]):
        return None
    lines[start:end] = [serialization.write_yaml(expected, in_order=True)]
    text = "".join(lines)
    return text if _says(document, text, expected) else None


def _at(root: Any, path: str) -> Any:
    return _at_steps(root, steps(path))


def _at_steps(root: Any, path: Sequence[str]) -> Any:
    for step in path:
        root = root[int(step) if isinstance(root, list) else step]
    return root


def _parent(root: Any, path: str) -> tuple[Any, str]:
    """Return the container of a field, made where it is missing, and the field's name."""
    *above, last = steps(path)
    for step in above:
        if isinstance(root, list):
            root = root[int(step)]
        else:
            if root.get(step) is None:
                root[step] = {}
            root = root[step]
    return root, last


class _CannotEdit(Exception):
    """The layout of the text is not one that can be edited."""


class _Text:
    """The text of a file, and where the nodes of one object are in it."""

    def __init__(self, document: Document) -> None:
        self.node = document.node
        self._text = document.text
        self._starts = [0]
        for line in document.text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def at(self, path: Sequence[str]) -> yaml.Node | None:
        node: yaml.Node = self.node
        for step in path:
            pair = child(node, step)
            if pair is None:
                return None
            node = pair[1]
        return node

    def span(self, node: yaml.Node) -> tuple[int, int]:
        return self._offset(node.start_mark), self._end(node)

    def _offset(self, mark: yaml.Mark) -> int:
        return min(self._starts[mark.line] + mark.column, len(self._text))

    def _end(self, node: yaml.Node) -> int:
        """Return the end of a node, without the comments that follow it."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            return self._end(last[1] if isinstance(last, tuple) else last)
        end = self._offset(node.end_mark)
        if isinstance(node, yaml.ScalarNode) and node.style in _BLOCK_STYLES:
            # Its end is the beginning of what follows.
            start = self._offset(node.start_mark)
            return start + len(self._text[start:end].rstrip())
        return end

    def _line_end(self, offset: int) -> int:
        found = self._text.find("\n", offset)
        return len(self._text) if found < 0 else found

    def replacement(self, parent: yaml.Node, node: yaml.Node, value: Any) -> TextEdit:
        """Return the edit that writes another value."""
        start, end = self.span(node)
        is_flow = _is_flow(parent) or _is_flow(node)
        if isinstance(node, yaml.ScalarNode) and not isinstance(value, dict | list):
            return TextEdit(start, end, self._scalar(node, value, is_flow))
        if is_flow or not isinstance(value, dict | list) or not value:
            return TextEdit(start, end, flow(value))
        if isinstance(parent, yaml.SequenceNode):
            column = node.start_mark.column
            return TextEdit(start, end, _indented(value, column).lstrip(" "))
        return self._below_key(parent, start, end, value)

    def _below_key(self, parent: yaml.Node, start: int, end: int, value: Any) -> TextEdit:
        """Return the edit that writes an object or a list on the lines below its key."""
        column = parent.start_mark.column + (INDENT if isinstance(value, dict) else 0)
        before = self._text[:start].rstrip(" \n")
        if not before.endswith(":"):
            raise _CannotEdit
        return TextEdit(len(before), end, f"\n{_indented(value, column)}")

    def _scalar(self, node: yaml.ScalarNode, value: Any, is_flow: bool) -> str:
        if node.style in _BLOCK_STYLES and isinstance(value, str):
            header = self._text[self._offset(node.start_mark) :].split("\n", 1)[0].split(" ")[0]
            line = self._text.split("\n")[node.start_mark.line + 1]
            indent = " " * (len(line) - len(line.lstrip()))
            chomped = f"{header[0]}-" if not value.endswith("\n") else header[0]
            return f"{chomped}\n{textwrap.indent(value.rstrip(chr(10)), indent)}"
        if isinstance(value, str) and node.style == '"':
            return flow(value, style='"')
        if isinstance(value, str) and node.style == "'":
            return flow(value, style="'")
        return flow(value) if is_flow else _plain(value)

    def addition(self, node: yaml.Node, name: str, value: Any) -> TextEdit:
        """Return the edit that adds a field to an object, or an item to a list."""
        if isinstance(node, yaml.ScalarNode) and not node.value:
            raise _CannotEdit
        pair = flow(value) if name.isdecimal() else f"{name}: {flow(value)}"
        if _is_flow(node):
            end = self._end(node) - 1
            lead = ", " if isinstance(node, yaml.CollectionNode) and node.value else ""
            before = len(self._text[:end].rstrip())
            return TextEdit(before, before, f"{lead.rstrip() if before < end else lead}{pair}")
        column = node.start_mark.column
        entry = [value] if isinstance(node, yaml.SequenceNode) else {name: value}
        end = self._line_end(self._end(node))
        return TextEdit(end, end, f"\n{_indented(entry, column)}")

    def moved(self, key: yaml.Node, value: yaml.Node, outer: yaml.Node) -> TextEdit:
        """Return the edit that adds a field which is written elsewhere, with its comment."""
        start, end = self._offset(key.start_mark), self._end(value)
        if _is_flow(outer):
            close = len(self._text[: self._end(outer) - 1].rstrip())
            return TextEdit(close, close, f", {self._text[start:end]}")
        indent = " " * key.start_mark.column
        own = textwrap.dedent(indent + self._text[start : self._line_end(end)])
        close = self._line_end(self._end(outer))
        return TextEdit(close, close, "\n" + textwrap.indent(own, " " * outer.start_mark.column))

    def unwrapping(self, key: yaml.Node, value: yaml.Node) -> TextEdit:
        """Return the edit that writes the fields of an object in its place."""
        start, end = self._offset(value.start_mark), self._end(value)
        if _is_flow(value):
            return TextEdit(self._offset(key.start_mark), end, self._text[start + 1 : end - 1])
        end = self._line_end(end)
        own = textwrap.dedent(" " * value.start_mark.column + self._text[start:end])
        written = textwrap.indent(own, " " * key.start_mark.column).lstrip(" ")
        return TextEdit(self._offset(key.start_mark), end, written)

    def wrapping(self, node: yaml.Node) -> TextEdit:
        """Return the edit that makes a list of an object."""
        start, end = self.span(node)
        own = self._text[start:end]
        if _is_flow(node):
            return TextEdit(start, end, f"[{own}]")
        first, newline, rest = own.partition("\n")
        return TextEdit(start, end, f"- {first}{newline}{textwrap.indent(rest, ' ' * INDENT)}")

    def removal(self, node: yaml.Node | None, name: str) -> TextEdit:
        """Return the edit that removes a field or an item with its lines."""
        pairs = _pairs(node)
        names = [key for key, *_ in pairs]
        if node is None or name not in names:
            raise _CannotEdit
        number = names.index(name)
        if len(pairs) == 1:
            return self._emptied(node)
        _, first, value = pairs[number]
        start, end = self._offset(first.start_mark), self._end(value)
        if _is_flow(node) or number == 0:
            if number + 1 < len(pairs):
                following = self._offset(pairs[number + 1][1].start_mark)
                if not _is_flow(node) and isinstance(node, yaml.SequenceNode):
                    following = self._text.rindex("-", 0, following)
                    start = self._text.rindex("-", 0, start)
                return TextEdit(start, following, "")
            return TextEdit(self._end(pairs[number - 1][2]), end, "")
        # With the line break before it, so that a field can be added after it at the same time.
        return TextEdit(self._starts[first.start_mark.line] - 1, self._line_end(end), "")

    def _emptied(self, node: yaml.Node) -> TextEdit:
        start, end = self.span(node)
        empty = "{}" if isinstance(node, yaml.MappingNode) else "[]"
        before = self._text[:start].rstrip(" \n")
        if _is_flow(node) or not before.endswith(":"):
            return TextEdit(start, end, empty)
        return TextEdit(len(before), end, f" {empty}")

    def nesting(self, node: yaml.MappingNode, names: Sequence[str], below: str) -> TextEdit:
        """Return the edit that moves fields below another, with the comments above them."""
        start, end = self.span(node)
        moved_or_header = {*names, below}
        if _is_flow(node):
            texts = {
                name: self._text[slice(*self._pair_span(*pair))] for name, *pair in _pairs(node)
            }
            kept = [text for name, text in texts.items() if name not in moved_or_header]
            moved = ", ".join(texts[name] for name in names)
            return TextEdit(start, end, "{" + ", ".join([*kept, f"{below}: {{{moved}}}"]) + "}")
        end = self._line_end(end)
        parts = self._parts(node, start)
        kept = [part for name, part in parts.items() if name not in moved_or_header]
        moved = "\n".join(parts[name] for name in names)
        lines = [*kept, parts.get(below, f"{below}:"), textwrap.indent(moved, " " * INDENT)]
        indent = " " * node.start_mark.column
        return TextEdit(start, end, textwrap.indent("\n".join(lines), indent).lstrip(" "))

    def _pair_span(self, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
        return self._offset(key.start_mark), self._end(value)

    def _parts(self, node: yaml.MappingNode, start: int) -> dict[str, str]:
        """Return the lines of each field of a block, with the comments above it, not indented."""
        pairs = _pairs(node)
        ends = [self._line_end(self._end(value)) for _, _, value in pairs]
        starts = [start, *(position + 1 for position in ends[:-1])]
        indent = " " * node.start_mark.column
        return {
            name: textwrap.dedent(
                (indent if number == 0 else "") + self._text[starts[number] : ends[number]]
            )
            for number, (name, _, _) in enumerate(pairs)
        }


def _pairs(node: yaml.Node | None) -> list[tuple[str, yaml.Node, yaml.Node]]:
    """Return name, first node and value of each field or item."""
    if isinstance(node, yaml.MappingNode):
        return [(str(key.value), key, value) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return [(str(number), item, item) for number, item in enumerate(node.value)]
    return []


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def flow(value: Any, style: str | None = None) -> str:
    """Return a value on one line, as it can be written between braces."""
    text = yaml.dump(
        [value],
        Dumper=serialization.Dumper,
        default_flow_style=True,
        default_style=style,
        allow_unicode=True,
        sort_keys=False,
        width=10**6,
    )
    return text.strip()[1:-1]


def _plain(value: Any) -> str:
    text = yaml.dump({"x": value}, Dumper=serialization.Dumper, allow_unicode=True, width=10**6)
    return text.removeprefix("x:").strip() if "\n" not in text.rstrip("\n") else flow(value)


def _indented(value: Any, column: int) -> str:
    text = serialization.write_yaml(value, in_order=True).rstrip("\n")
    return textwrap.indent(text, " " * column)
