"""Node selectors and node affinity, compiled to tests of a node's labels and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dray.api.formats import gotext
from dray.api.selectors.label_selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_IN,
    Labels,
    LabelTest,
    Requirement,
    SelectorError,
    _as_json,
    _invalid,
    _label_test,
    _requirement_errors,
    exact_labels,
)
from dray.api.types.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dray.api.types.pods import PreferredSchedulingTerm

NodeTest = Callable[[Labels, str], bool]
"""Does a node with these labels and this name match?"""


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
    """Compile a selector to a function. Raises SelectorError if any of its terms is invalid."""
    terms = _compile_terms(selector)
    complaints = [text for _, errors in terms for text in errors]
    if complaints:
        raise SelectorError(gotext.aggregate(complaints))
    return _any_of([test for test, _ in terms])


def compile_required_affinity(node_labels: Labels, required: NodeSelector | None) -> NodeTest:
    """Compile a pod's nodeSelector and required node affinity to one function.

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
    """Compile to a function that sums the weights of matching terms. Raises SelectorError."""
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
    """Compile each term that is not empty; its error is returned with it."""
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
    """Compile a test of the node's name, its only field; all others are empty."""
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
