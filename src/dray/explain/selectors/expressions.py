"""Selectors as texts: their clauses, their comparisons, and how to rewrite them.

Comparisons are read from the syntax tree; texts are rewritten by tokens, so that the rest of a text
stays as it is. An expression that does not parse has no comparisons and one clause, the text.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.api.features import Features
from dray.api.formats import quantity, semver
from dray.cel import device
from dray.cel.issues import CompilationFailed
from dray.cel.syntax import factory, lexer, literals, parser
from dray.cel.syntax.lexer import Token
from dray.cel.syntax.nodes import (
    Constant,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    Node,
    Select,
)

ATTRIBUTES = "attributes"
CAPACITY = "capacity"
QUANTITY = "quantity"
SEMVER = "semver"

_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RELATIONS = {f"_{relation}_": relation for relation in _MIRRORED}
_METHODS = {"isGreaterThan": ">", "isLessThan": "<"}
_TEXT_METHODS = ("startsWith", "endsWith", "contains", "matches")
_DRIVER = re.compile(r"(device\.driver\s*==\s*)(?:\"[^\"]*\"|'[^']*')")
_TRANSPARENT = ("orValue", "value")
_BYTES = re.compile(r"(?<=[0-9])([kmgtp])(i?)b$", re.IGNORECASE)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class SelectorSubject(NamedTuple):
    """A value that a selector reads: `device.attributes["DOMAIN"].NAME`, or a capacity."""

    field: str
    domain: str
    name: str

    @classmethod
    def published(cls, field: str, driver: str, name: str) -> SelectorSubject:
        """Return the subject that a device publishes; a name without domain is the driver's."""
        domain, slash, identifier = name.partition("/")
        return cls(field, domain, identifier) if slash else cls(field, driver, name)


class TextSpan(NamedTuple):
    """A part of the text."""

    start: int
    end: int


class Comparison(NamedTuple):
    """A subject compared with a constant, as in `….memory.compareTo(quantity("40Gi")) >= 0`."""

    subject: SelectorSubject
    relation: str
    """`==`, `<` and so on, `in`, or the name of a method on texts."""
    constant: Constant
    span: TextSpan
    """Where the constant is written."""
    form: str = ""
    """`quantity` or `semver` where the constant is the text of one."""
    call: TextSpan | None = None
    """The whole call around the constant, `quantity("40Gi")`."""
    is_method: bool = False
    """Compared with `compareTo` and the like, not with an operator."""
    after_subject: TextSpan | None = None
    """The text after the subject, if that is an operator and the constant."""


def driver_of(text: str) -> str:
    """Return the driver that a text compares `device.driver` with, or ""."""
    found = _DRIVER.search(text)
    return found[0][len(found[1]) + 1 : -1] if found else ""


def with_driver(text: str, driver: str) -> list[str]:
    """Return the text with another driver in `device.driver == "…"`, if it has that and differs."""
    new = _DRIVER.sub(lambda found: f"{found[1]}{written(driver)}", text)
    return [new] if new != text else []


def subjects_read(text: str, compiled: device.Selector) -> list[SelectorSubject]:
    """Return the attributes and capacities that are written out, then those read besides."""
    paths = sorted(() if compiled.error else compiled.reads)
    read = [SelectorSubject(*path) for path in paths if len(path) == 3]
    return list(dict.fromkeys([*subjects(text), *read]))


def clauses(text: str) -> list[str]:
    """Return the clauses of a conjunction, or the whole text if it is none."""
    tokens = _tokens(text)
    inner = _without_parentheses(text, tokens)
    if inner is not None:
        return clauses(inner)
    depth, start = 0, 0
    parts: list[str] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.kind in _OPENING:
            depth += 1
        elif token.kind in _CLOSING:
            depth -= 1
        elif depth == 0 and (token.kind == "||" or _is_condition(before, token)):
            return [text.strip()]
        elif depth == 0 and token.kind == "&&":
            parts.append(text[start : token.position].strip())
            start = token.position + 2
    return [*parts, text[start:].strip()]


def _without_parentheses(text: str, tokens: Sequence[Token]) -> str | None:
    """Return the text inside one pair of parentheses that encloses everything, or None."""
    if len(tokens) < 3 or tokens[0].kind != "(":
        return None
    depth = 0
    for number, token in enumerate(tokens[:-1]):
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0:
            is_last = number == len(tokens) - 2
            return text[tokens[0].position + 1 : token.position] if is_last else None
    return None


def _is_condition(before: Token | None, token: Token) -> bool:
    """Return whether a `?` is the conditional operator, not an optional `.?` or `[?`."""
    return token.kind == "?" and before is not None and before.kind not in (".", "[")


@functools.lru_cache(maxsize=512)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(lexer.tokenize(text)[0])


@functools.lru_cache(maxsize=512)
def comparisons(text: str) -> tuple[Comparison, ...]:
    """Return every comparison of an attribute or capacity with a constant, in text order."""
    try:
        root = parser.parse(text)
    except CompilationFailed:
        return ()
    reader = _Reader(text)
    comparisons_found = [
        comparison
        for node in factory.children_first(root)
        for comparison in reader.comparisons(node)
    ]
    return tuple(sorted(set(comparisons_found), key=operator.attrgetter("span")))


@functools.lru_cache(maxsize=512)
def subjects(text: str) -> tuple[SelectorSubject, ...]:
    """Return the attributes and capacities that are written out in the text."""
    try:
        root = parser.parse(text)
    except CompilationFailed:
        return ()
    written_out = (_subject(node) for node in factory.children_first(root))
    return tuple(dict.fromkeys(subject for subject in written_out if subject is not None))


class _Reader:
    """Finds the comparisons in the syntax tree of one text."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = {token.position: number for number, token in enumerate(self._tokens)}

    def comparisons(self, node: Node) -> Iterator[Comparison]:
        if not isinstance(node, FunctionCall):
            return
        if node.function in _RELATIONS and len(node.arguments) == 2:
            yield from self._relation(node, _RELATIONS[node.function])
        elif node.function == "@in" and len(node.arguments) == 2:
            yield from self._membership(*node.arguments)
        elif node.target is not None and len(node.arguments) == 1:
            yield from self._method(node)

    def _relation(self, node: FunctionCall, relation: str) -> Iterator[Comparison]:
        left, right = node.arguments
        if (subject := _subject(left)) is not None:
            for comparison in self._with_constant(subject, relation, right):
                yield comparison._replace(
                    after_subject=self._after_subject(node.position, comparison)
                )
        elif (subject := _subject(right)) is not None:
            yield from self._with_constant(subject, _MIRRORED[relation], left)
        elif isinstance(left, FunctionCall) and left.function == "compareTo" and _is_zero(right):
            yield from self._compared_to(left, relation)
        elif isinstance(right, FunctionCall) and right.function == "compareTo" and _is_zero(left):
            yield from self._compared_to(right, _MIRRORED[relation])

    def _after_subject(self, operator: int, comparison: Comparison) -> TextSpan:
        before = self._tokens[self._at[operator] - 1]
        return TextSpan(
            before.position + len(before.text), (comparison.call or comparison.span).end
        )

    def _compared_to(self, node: FunctionCall, relation: str) -> Iterator[Comparison]:
        subject = _subject(node.target) if node.target else None
        if subject is not None and node.arguments:
            for comparison in self._with_constant(subject, relation, node.arguments[0]):
                yield comparison._replace(is_method=True)

    def _method(self, node: FunctionCall) -> Iterator[Comparison]:
        subject = _subject(node.target) if node.target else None
        relation = _METHODS.get(node.function)
        if relation is None and node.function in _TEXT_METHODS:
            relation = node.function
        if subject is not None and relation is not None:
            for comparison in self._with_constant(subject, relation, node.arguments[0]):
                yield comparison._replace(is_method=True)

    def _membership(self, element: Node, members: Node) -> Iterator[Comparison]:
        subject = _subject(element)
        if subject is not None and isinstance(members, ListLiteral):
            for member in members.elements:
                yield from self._with_constant(subject, "in", member)

    def _with_constant(
        self, subject: SelectorSubject, relation: str, node: Node
    ) -> Iterator[Comparison]:
        form, call = "", None
        if (
            isinstance(node, FunctionCall)
            and node.function in (QUANTITY, SEMVER)
            and node.arguments
        ):
            opening = self._at.get(node.position)
            form = node.function
            node = node.arguments[0]
            if opening is not None and isinstance(node, Literal):
                closing = self._tokens[opening + 2]
                call = TextSpan(self._tokens[opening - 1].position, closing.position + 1)
        number = self._at.get(node.position)
        if isinstance(node, Literal) and number is not None:
            token = self._tokens[number]
            end = token.position + len(token.text)
            if token.kind == "-":
                following = self._tokens[number + 1]
                end = following.position + len(following.text)
            yield Comparison(
                subject, relation, node.value, TextSpan(token.position, end), form, call
            )


def _is_zero(node: Node) -> bool:
    return isinstance(node, Literal) and node.value == 0 and not isinstance(node.value, bool)


def _subject(node: Node) -> SelectorSubject | None:
    """Return the attribute or capacity of a syntax node, or None; ignores defaults."""
    while (
        isinstance(node, FunctionCall) and node.function in _TRANSPARENT and node.target is not None
    ):
        node = node.target
    operand, name = _selected(node)
    if operand is None or name is None:
        return None
    device_field, domain = _selected(operand)
    if domain is None or not isinstance(device_field, Select):
        return None
    if not isinstance(device_field.operand, Identifier) or device_field.operand.name != "device":
        return None
    if device_field.field not in (ATTRIBUTES, CAPACITY):
        return None
    return SelectorSubject(device_field.field, domain, name)


def _selected(node: Node) -> tuple[Node | None, str | None]:
    """Return operand and name of `.name`, `.?name`, `["name"]` or `[?"name"]`, or None twice."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, FunctionCall) and node.function in ("_[_]", "_?._", "_[?_]"):
        operand, key = node.arguments
        if isinstance(key, Literal) and isinstance(key.value, str):
            return operand, key.value
    return None, None


def compiled(text: str, features: Features) -> device.Selector:
    """Return the selector, compiled as for the allocator."""
    return device.compile_selector(
        text,
        stored=True,
        consumable_capacity=features.consumable_capacity,
        list_type_attributes=features.list_type_attributes,
    )


def replaced(text: str, span: TextSpan, replacement: str) -> str:
    return text[: span.start] + replacement + text[span.end :]


def written(constant: Constant) -> str:
    """Return a constant in CEL syntax."""
    if isinstance(constant, bool):
        return str(constant).lower()
    return json.dumps(constant, ensure_ascii=False) if isinstance(constant, str) else str(constant)


def converted(text: str, comparison: Comparison, kind: str) -> str | None:
    """Return the text with the constant converted to another type, or None if it cannot be.

    `kind` is `quantity`, `semver`, `string`, `int` or `bool`.
    """
    if kind in (QUANTITY, SEMVER):
        return _with_function(text, comparison, kind)
    if comparison.form or comparison.is_method:
        return None
    constant = _as_kind(comparison.constant, kind)
    return None if constant is None else replaced(text, comparison.span, written(constant))


def _with_function(text: str, comparison: Comparison, function: str) -> str | None:
    constant = _argument(str(comparison.constant), function)
    if constant is None:
        return None
    call = f"{function}({written(constant)})"
    if comparison.is_method and comparison.relation in (*_MIRRORED, "in"):
        is_right = (comparison.form, comparison.constant) == (function, constant)
        return None if is_right else replaced(text, comparison.call or comparison.span, call)
    if comparison.after_subject is None or isinstance(comparison.constant, bool):
        return None
    return replaced(text, comparison.after_subject, f".compareTo({call}) {comparison.relation} 0")


def _argument(text: str, function: str) -> str | None:
    """Return the text as `quantity` or `semver` accepts it, or None if that is not possible.

    `570` becomes `570.0.0`, which semver() of every Kubernetes accepts, and `40 GB` `40G`.
    """
    try:
        if function == SEMVER:
            return str(semver.parse_normalized(text))
        plain = _BYTES.sub(lambda unit: unit[1].upper() + unit[2].lower(), text.replace(" ", ""))
        quantity.parse(plain)
    except ValueError:
        return None
    return plain


def _as_kind(constant: Constant, kind: str) -> Constant:
    """Return the constant converted to another type, or None if that is not possible."""
    if kind == "string" and not isinstance(constant, str):
        return written(constant)
    if kind == "int" and isinstance(constant, str) and constant.lstrip("-").isdecimal():
        return int(constant)
    if kind == "bool" and constant in ("true", "false"):
        return constant == "true"
    return None


def without_clause(text: str, clause: str) -> str:
    """Return the conjunction of the other clauses."""
    rest = list(clauses(text))
    rest.remove(clause)
    return " && ".join(rest)


def renamed(text: str, subject: SelectorSubject, other: SelectorSubject) -> str:
    """Return the text with every use of `subject` replaced by `other`."""
    tokens = _tokens(text)
    parts: list[str] = []
    end = 0
    for number, token in enumerate(tokens[:-1]):
        replacement = _renaming(tokens, number, subject, other)
        if replacement is not None:
            parts += [text[end : token.position], replacement]
            end = token.position + len(token.text)
    return "".join([*parts, text[end:]])


def _renaming(
    tokens: Sequence[Token], number: int, subject: SelectorSubject, other: SelectorSubject
) -> str | None:
    """Return the replacement of one token of `.FIELD["DOMAIN"].NAME`, or None."""
    token = tokens[number]
    if token.kind == lexer.IDENTIFIER and token.text == subject.field:
        names = _names_behind(tokens, number)
        return other.field if names == (subject.domain, subject.name) else None
    for back, new in ((2, other.domain), (5, other.name), (6, other.name)):
        at = number - back
        if at < 0 or tokens[at].text != subject.field:
            continue
        if _names_behind(tokens, at) != (subject.domain, subject.name):
            continue
        if token.kind == lexer.STRING:
            return written(new)
        if token.kind == lexer.IDENTIFIER and back > 2:
            return new
    return None


def _names_behind(tokens: Sequence[Token], number: int) -> tuple[str, str] | None:
    """Return domain and name of `["DOMAIN"].NAME` or `["DOMAIN"]["NAME"]` after a token."""
    following = [token for token in tokens[number + 1 : number + 8] if token.kind != "?"]
    if len(following) < 5 or following[0].kind != "[" or following[1].kind != lexer.STRING:
        return None
    domain = _string(following[1])
    if following[3].kind == "." and following[4].kind == lexer.IDENTIFIER:
        return domain, following[4].text
    if following[3].kind == "[" and following[4].kind == lexer.STRING:
        return domain, _string(following[4])
    return None


def _string(token: Token) -> str:
    value = literals.text_or_bytes(token.kind, token.text)
    return value if isinstance(value, str) else ""


def guarded(text: str, subject: SelectorSubject) -> str:
    """Return the text guarded by has() or `in`, so that it is false without the attribute."""
    parent = f"device.{subject.field}[{written(subject.domain)}]"
    # `||` and `?:` bind less than `&&`; where several clauses are joined by it, nothing is needed.
    binds_less = len(clauses(text)) == 1 and ("||" in text or "?" in text)
    inner = f"({text})" if binds_less else text
    if subject.name in parser.RESERVED:
        return f"{written(subject.name)} in {parent} && {inner}"
    return f"has({parent}.{subject.name}) && {inner}"
