"""Label, field and node selectors: parse and match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.api.formats import gotext, names
from dray.api.types.meta import (
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from dray.api.types.pods import PreferredSchedulingTerm

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]
NodeTest = Callable[[Labels, str], bool]
"""Does a node with these labels and this name match?"""

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "in", "notin", "exists", "!"
EQUALS, DOUBLE_EQUALS, NOT_EQUALS = "=", "==", "!="
GREATER, LESS = "gt", "lt"


class SelectorError(ValueError):
    """A selector that cannot be used, in the words of Kubernetes."""


class Requirement(NamedTuple):
    """What a selector asks of one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        if self.operator in _SET_SYMBOLS:
            return f"{self.key} {self.operator} ({values})"
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        return f"{self.key}{_SYMBOLS.get(self.operator, self.operator)}{values}"


_SET_SYMBOLS = (IN, NOT_IN)
_SYMBOLS = {GREATER: ">", LESS: "<"}


_INTEGER = re.compile("[+-]?[0-9]+", re.ASCII)


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _label_test(requirement: Requirement) -> LabelTest:
    key, operator, values = requirement
    if operator in (GREATER, LESS):
        return _order_test(requirement)
    if operator == EXISTS:
        return lambda labels: key in labels
    if operator == DOES_NOT_EXIST:
        return lambda labels: key not in labels
    if operator in (NOT_IN, NOT_EQUALS):
        excluded = frozenset(values)
        return lambda labels: labels.get(key) not in excluded
    if len(values) == 1:
        (only,) = values
        return lambda labels: labels.get(key) == only
    allowed = frozenset(values)
    return lambda labels: labels.get(key) in allowed


def _order_test(requirement: Requirement) -> LabelTest:
    bound = _int64(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return lambda labels: False
    limit = bound

    def test(labels: Labels) -> bool:
        value = _int64(labels.get(requirement.key, ""))
        if value is None:
            return False
        return value > limit if requirement.operator == GREATER else value < limit

    return test


class Selector:
    """All of some requirements on labels; none at all match everything."""

    __slots__ = ("_tests", "requirements")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self._tests = tuple(map(_label_test, self.requirements))

    def matches(self, labels: Labels) -> bool:
        return all(test(labels) for test in self._tests)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"


EVERYTHING = Selector(())


class _Nothing(Selector):
    def matches(self, labels: Labels) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


NOTHING: Selector = _Nothing(())


def exact_labels(labels: Labels) -> Selector:
    """Selects what has all of these labels; they are not checked."""
    return Selector(Requirement(key, EQUALS, (value,)) for key, value in labels.items())


_LABEL_SELECTOR_OPERATORS = {
    "In": IN,
    "NotIn": NOT_IN,
    "Exists": EXISTS,
    "DoesNotExist": DOES_NOT_EXIST,
}


def label_selector(selector: LabelSelector | None) -> Selector:
    """A LabelSelector of the API: none selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [
        Requirement(key, EQUALS, (value,)) for key, value in selector.match_labels.items()
    ]
    for expression in selector.match_expressions:
        operator = _LABEL_SELECTOR_OPERATORS.get(expression.operator)
        if operator is None:
            quoted = gotext.quote(expression.operator)
            raise SelectorError(f"{quoted} is not a valid label selector operator")
        requirements.append(Requirement(expression.key, operator, expression.values))
    for requirement in requirements:
        check_requirement(requirement)
    return Selector(requirements)


def check_requirement(requirement: Requirement) -> None:
    """Raise SelectorError if Kubernetes would not accept the requirement."""
    if complaints := list(_requirement_errors(requirement, "")):
        raise SelectorError(gotext.aggregate(complaints))


def key_error(key: str, path: str) -> str | None:
    """What is wrong with a label key, as one sentence."""
    errors = names.qualified_name_errors(key)
    return _invalid(path, gotext.quote(key), "; ".join(errors)) if errors else None


def _requirement_errors(requirement: Requirement, path: str) -> Iterator[str]:
    prefix = f"{path}." if path else ""
    wrong_key = key_error(requirement.key, f"{prefix}key")
    if wrong_key:
        yield wrong_key
    yield from _count_errors(requirement, f"{prefix}values")
    for index, value in enumerate(requirement.values):
        errors = names.label_value_errors(value)
        if errors:
            where = f"{prefix}values[{index}][{requirement.key}]"
            yield _invalid(where, gotext.quote(value), "; ".join(errors))


_COUNT_RULES: Mapping[str, tuple[Callable[[int], bool], str]] = {
    IN: (bool, "for 'in', 'notin' operators, values set can't be empty"),
    NOT_IN: (bool, "for 'in', 'notin' operators, values set can't be empty"),
    EQUALS: ((1).__eq__, "exact-match compatibility requires one single value"),
    DOUBLE_EQUALS: ((1).__eq__, "exact-match compatibility requires one single value"),
    NOT_EQUALS: ((1).__eq__, "exact-match compatibility requires one single value"),
    EXISTS: ((0).__eq__, "values set must be empty for exists and does not exist"),
    DOES_NOT_EXIST: ((0).__eq__, "values set must be empty for exists and does not exist"),
    GREATER: ((1).__eq__, "for 'Gt', 'Lt' operators, exactly one value is required"),
    LESS: ((1).__eq__, "for 'Gt', 'Lt' operators, exactly one value is required"),
}


def _count_errors(requirement: Requirement, path: str) -> Iterator[str]:
    is_allowed, rule = _COUNT_RULES[requirement.operator]
    if not is_allowed(len(requirement.values)):
        yield _invalid(path, _as_json(requirement.values), rule)
    if requirement.operator in (GREATER, LESS):
        for index, value in enumerate(requirement.values):
            if _int64(value) is None:
                rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield _invalid(f"{path}[{index}]", gotext.quote(value), rule)


def _invalid(path: str, shown: str, rule: str) -> str:
    return f"{path}: Invalid value: {shown}: {rule}"


def _as_json(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode() if values else "null"


class FieldTerm(NamedTuple):
    field: str
    value: str
    is_negated: bool = False

    def __str__(self) -> str:
        operator = "!=" if self.is_negated else "="
        return f"{self.field}{operator}{escape_field_value(self.value)}"


class FieldSelector(NamedTuple):
    """All of some terms on fields of an object; none at all match everything."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these fields is selected; a field not given is empty."""
        return all(
            (fields.get(term.field, "") == term.value) != term.is_negated for term in self.terms
        )

    def required_value(self, field: str) -> str | None:
        """The one value the selector allows for that field, if it names one."""
        for term in self.terms:
            if term.field == field and not term.is_negated:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


_SPECIAL_IN_FIELD_VALUE = re.compile(r"[\\,=]")
_FIELD_OPERATOR = re.compile("!=|==|=")


def escape_field_value(value: str) -> str:
    return _SPECIAL_IN_FIELD_VALUE.sub(r"\\\g<0>", value)


def parse_fields(text: str) -> FieldSelector:
    """A field selector as it stands in a query: `metadata.name=x,status.phase!=Failed`."""
    terms = []
    for part in sorted(filter(None, _split_terms(text))):
        operator = _FIELD_OPERATOR.search(part)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _unescape_field_value(part[operator.end() :])
        terms.append(FieldTerm(part[: operator.start()], value, operator.group() == "!="))
    return FieldSelector(tuple(terms))


def _split_terms(text: str) -> Iterator[str]:
    start, is_escaped = 0, False
    for index, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character == ",":
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _unescape_field_value(text: str) -> str:
    literal = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            literal.append(escaped)
        elif character in ",=":
            # The number of the character, not the character: Go prints a rune so.
            raise SelectorError(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            literal.append(character)
    return "".join(literal)


_NODE_OPERATORS = {
    "In": IN,
    "NotIn": NOT_IN,
    "Exists": EXISTS,
    "DoesNotExist": DOES_NOT_EXIST,
    "Gt": GREATER,
    "Lt": LESS,
}
_NODE_FIELD_OPERATORS = ("In", "NotIn")


def compile_node_selector(selector: NodeSelector) -> NodeTest:
    """The selector as a function; raises SelectorError if any of its terms is wrong."""
    terms = _compile_terms(selector)
    complaints = [text for _, errors in terms for text in errors]
    if complaints:
        raise SelectorError(gotext.aggregate(complaints))
    return _any_of([test for test, _ in terms])


def compile_required_affinity(node_labels: Labels, required: NodeSelector | None) -> NodeTest:
    """A pod's nodeSelector and required node affinity as one function.

    A term that is wrong raises SelectorError when the function is called and no other term
    matches, as in component-helpers, nodeaffinity, LazyErrorNodeSelector.
    """
    has_labels = exact_labels(node_labels).matches
    if required is None:
        return lambda labels, name: has_labels(labels)
    terms = _compile_terms(required)
    matches_a_term = _any_of([test for test, errors in terms if not errors])
    complaints = [text for _, errors in terms for text in errors]

    def test(labels: Labels, name: str) -> bool:
        if not has_labels(labels):
            return False
        matches = matches_a_term(labels, name)
        if complaints and not matches:
            raise SelectorError(gotext.aggregate(complaints))
        return matches

    return test


def compile_preferred_affinity(
    terms: Sequence[PreferredSchedulingTerm],
) -> Callable[[Labels, str], int]:
    """The sum of the weights of the terms that match; raises SelectorError if one is wrong."""
    compiled = [
        (term.weight, *_compile_term(term.preference, f"[{index}]"))
        for index, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    ]
    complaints = [text for _, _, errors in compiled for text in errors]
    if complaints:
        raise SelectorError(gotext.aggregate(complaints))
    return lambda labels, name: sum(weight for weight, test, _ in compiled if test(labels, name))


def _any_of(tests: Sequence[NodeTest]) -> NodeTest:
    if len(tests) == 1:
        return tests[0]
    return lambda labels, name: any(test(labels, name) for test in tests)


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _compile_terms(selector: NodeSelector) -> list[tuple[NodeTest, list[str]]]:
    """Each term that is not empty, as a function and what is wrong with it."""
    return [
        _compile_term(term, f"nodeSelectorTerms[{index}]")
        for index, term in enumerate(selector.node_selector_terms)
        if not _is_empty(term)
    ]


def _compile_term(term: NodeSelectorTerm, path: str) -> tuple[NodeTest, list[str]]:
    label_tests, errors = [], []
    for index, expression in enumerate(term.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        operator = _NODE_OPERATORS.get(expression.operator)
        if operator is None:
            errors.append(_unsupported(where, expression.operator, _NODE_OPERATORS))
            continue
        requirement = Requirement(expression.key, operator, expression.values)
        errors += _requirement_errors(requirement, where)
        label_tests.append(_label_test(requirement))
    for index, field in enumerate(term.match_fields):
        errors += _field_errors(field, f"{path}.matchFields[{index}]")
    if errors:
        return _never, errors
    return _all_of(label_tests, [_name_test(field) for field in term.match_fields]), []


def _never(labels: Labels, name: str) -> bool:
    return False


def _field_errors(field: NodeSelectorRequirement, path: str) -> Iterator[str]:
    if field.operator not in _NODE_FIELD_OPERATORS:
        yield _unsupported(path, field.operator, _NODE_FIELD_OPERATORS)
    elif len(field.values) != 1:
        yield _invalid(f"{path}.values", _as_json(field.values), "must have one element")


def _unsupported(path: str, operator: str, supported: Iterable[str]) -> str:
    listed = gotext.quoted_list(supported)
    return (
        f"{path}.operator: Unsupported value: {gotext.quote(operator)}: supported values: {listed}"
    )


def _name_test(field: NodeSelectorRequirement) -> Callable[[str], bool]:
    """A node has one field, its name; any other is empty."""
    (value,) = field.values
    is_name, is_negated = field.key == "metadata.name", field.operator == "NotIn"
    return lambda name: ((name if is_name else "") == value) != is_negated


def _all_of(
    label_tests: Sequence[LabelTest], name_tests: Sequence[Callable[[str], bool]]
) -> NodeTest:
    if not label_tests and len(name_tests) == 1:
        (only,) = name_tests
        return lambda labels, name: not name or only(name)

    # A node without a name has no fields, and then nothing is asked of them.
    def test(labels: Labels, name: str) -> bool:
        return all(test(labels) for test in label_tests) and (
            not name or all(test(name) for test in name_tests)
        )

    return test


_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+)")
_OPERATOR_TOKENS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""

_OPERATORS = {
    "in": IN,
    "notin": NOT_IN,
    "=": EQUALS,
    "==": DOUBLE_EQUALS,
    "!=": NOT_EQUALS,
    ">": GREATER,
    "<": LESS,
}
_OPERATORS_LISTED = "in, notin, =, ==, !=, gt, lt"


def parse(text: str) -> Selector:
    """The selector that `text` stands for; raises SelectorError."""
    return Selector(_Parser(text).parse())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text)]
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while (token := self._peek()) != _END:
            if not _starts_requirement(token):
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            requirements.append(self._requirement())
            self._separator()
        return requirements

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _separator(self) -> None:
        token = self._next()
        if token not in (_END, ","):
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        following = self._peek()
        if token == "," and not _starts_requirement(following):
            raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        try:
            requirement = self._unchecked_requirement()
            check_requirement(requirement)
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        return requirement

    def _unchecked_requirement(self) -> Requirement:
        is_negated = self._peek() == "!"
        if is_negated:
            self._next()
        key = self._key()
        if is_negated:
            return Requirement(key, DOES_NOT_EXIST)
        if self._peek() in (_END, ","):
            return Requirement(key, EXISTS)
        operator = self._operator()
        values = self._set() if operator in (IN, NOT_IN) else self._value()
        return Requirement(key, operator, tuple(sorted(values)))

    def _key(self) -> str:
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        if error := key_error(token, "<nil>"):
            raise SelectorError(error)
        return token

    def _operator(self) -> str:
        token = self._next()
        if token not in _OPERATORS:
            raise SelectorError(f"found '{token}', expected: {_OPERATORS_LISTED}")
        return _OPERATORS[token]

    def _value(self) -> set[str]:
        if self._peek() in (_END, ","):
            return {""}
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return {token}

    def _set(self) -> set[str]:
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        first = self._peek()
        if first != ")" and first != "," and not _is_word(first):
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values = self._members()
        self._next()
        return values

    def _members(self) -> set[str]:
        """The values before the closing parenthesis; between two commas stands an empty one."""
        values: set[str] = set()
        is_value_expected = True
        while (token := self._peek()) != ")":
            self._next()
            if token == ",":
                if is_value_expected:
                    values.add("")
                is_value_expected = True
            elif not _is_word(token):
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            else:
                values.add(token)
                is_value_expected = False
                if self._peek() not in (",", ")"):
                    raise SelectorError(f"found '{self._peek()}', expected: ',' or ')'")
        return values | {""} if is_value_expected else values


def _is_word(token: str) -> bool:
    return token != _END and token not in _OPERATOR_TOKENS


def _starts_requirement(token: str) -> bool:
    return token == "!" or _is_word(token)
