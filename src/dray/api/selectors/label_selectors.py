"""Label, field and node selectors: parse and match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.api.formats import gonumbers, gotext, names
from dray.api.types.meta import LabelSelector

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "in", "notin", "exists", "!"
EQUALS, DOUBLE_EQUALS, NOT_EQUALS = "=", "==", "!="
GREATER, LESS = "gt", "lt"


class SelectorError(ValueError):
    """A selector that cannot be used, in the words of Kubernetes."""


class Requirement(NamedTuple):
    """The condition of a selector on one label."""

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
    bound = gonumbers.int64_or_none(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return lambda labels: False
    limit = bound

    def test(labels: Labels) -> bool:
        value = gonumbers.int64_or_none(labels.get(requirement.key, ""))
        if value is None:
            return False
        return value > limit if requirement.operator == GREATER else value < limit

    return test


class ParsedSelector:
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
        return isinstance(other, ParsedSelector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"


EVERYTHING = ParsedSelector(())


class _Nothing(ParsedSelector):
    def matches(self, labels: Labels) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


NOTHING: ParsedSelector = _Nothing(())


def exact_labels(labels: Labels) -> ParsedSelector:
    """Return a selector of objects with all of these labels, which are not checked."""
    return ParsedSelector(Requirement(key, EQUALS, (value,)) for key, value in labels.items())


_LABEL_SELECTOR_OPERATORS = {
    "In": IN,
    "NotIn": NOT_IN,
    "Exists": EXISTS,
    "DoesNotExist": DOES_NOT_EXIST,
}


def label_selector(selector: LabelSelector | None) -> ParsedSelector:
    """Compile a LabelSelector of the API: None selects nothing, an empty one everything."""
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
    return ParsedSelector(requirements)


def check_requirement(requirement: Requirement) -> None:
    """Raise SelectorError if Kubernetes would not accept the requirement."""
    if complaints := list(_requirement_errors(requirement, "")):
        raise SelectorError(gotext.aggregate(complaints))


def key_error(key: str, path: str) -> str | None:
    """Return what is wrong with a label key, as one sentence, or None."""
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
            if gonumbers.int64_or_none(value) is None:
                rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield _invalid(f"{path}[{index}]", gotext.quote(value), rule)


def _invalid(path: str, shown: str, rule: str) -> str:
    return f"{path}: Invalid value: {shown}: {rule}"


def _as_json(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode() if values else "null"


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


def parse(text: str) -> ParsedSelector:
    """Parse a selector. Raises SelectorError."""
    return ParsedSelector(_Parser(text).parse())


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
        """Parse the values before the closing parenthesis; two commas enclose an empty one."""
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
