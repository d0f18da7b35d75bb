"""Rewritten selectors, made from what devices publish.

First corrections of obvious mistakes, then similar values, then thresholds that some device meets,
then other values. `change_tester` tests whether any of them helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.explain.selectors import expressions, spelling, text_corrections, typed_values
from dray.explain.selectors.expressions import CAPACITY, Comparison, SelectorSubject
from dray.explain.selectors.typed_values import QUANTITY, TypedValue
from dray.explain.suggestions.changes import Rewriting
from dray.explain.survey.facts import Observation, SubjectFact, type_of

_SUGGESTIONS = 4
_UPWARD = (">=", ">")
_DOWNWARD = ("<=", "<")


class Rewrite(NamedTuple):
    """A rewritten selector: `new` instead of `old`."""

    how: Rewriting
    text: str
    old: str = ""
    new: str = ""


def corrections(observed: Observation) -> Iterator[Rewrite]:
    """Correct names, domains and types; guard attributes that not every device has."""
    text = observed.facts.filter.expression
    for found in text_corrections.dotted_domain(text):
        yield Rewrite(Rewriting.SYNTAX, found.text)
    for fact in observed.facts.subjects:
        if not fact.devices:
            yield from _renamings(text, fact)
    retyped = _retyped(text, observed)
    if retyped != text:
        for candidate in _with_units(retyped):
            yield Rewrite(Rewriting.TYPE, candidate)
    partly = [fact for fact in observed.facts.subjects if 0 < fact.devices < fact.total]
    guarded = text
    for fact in reversed(partly):
        guarded = expressions.guarded(guarded, _subject(fact))
    if partly:
        yield Rewrite(Rewriting.GUARD, guarded, new=partly[0].name)


def spellings(observed: Observation) -> Iterator[Rewrite]:
    """Replace a value by published ones that differ only in spelling."""
    for compared in _equalities(observed):
        values = [value.text for value in observed.values[compared.subject]]
        for close in spelling.same_but_spelling(str(compared.constant), values)[:_SUGGESTIONS]:
            yield _with_value(observed, compared, close, Rewriting.SPELLING)
    for compared in expressions.comparisons(observed.facts.filter.expression):
        values = [value.text for value in observed.values.get(compared.subject, ())]
        for close in spelling.parts_in_other_case(str(compared.constant), values):
            yield _with_value(observed, compared, close, Rewriting.SPELLING)


def thresholds(observed: Observation) -> Iterator[Rewrite]:
    """Replace a limit by those that some device meets, the nearest first."""
    for compared in expressions.comparisons(observed.facts.filter.expression):
        for limit in _reachable_limits(observed, compared)[:_SUGGESTIONS]:
            yield _with_value(observed, compared, limit.text, Rewriting.THRESHOLD)


def other_values(observed: Observation) -> Iterator[Rewrite]:
    """Replace a value by published ones, the most common first."""
    for compared in _equalities(observed):
        common = observed.values[compared.subject].most_common(_SUGGESTIONS)
        for value, _ in common:
            if value.text != str(compared.constant):
                yield _with_value(observed, compared, value.text, Rewriting.VALUE)


def shortenings(observed: Observation) -> Iterator[Rewrite]:
    """Drop one clause of the selector."""
    text = observed.facts.filter.expression
    for clause in observed.facts.clauses:
        shorter = expressions.without_clause(text, clause.text)
        yield Rewrite(Rewriting.CLAUSE, shorter, old=clause.text)


def _renamings(text: str, fact: SubjectFact) -> Iterator[Rewrite]:
    subject = _subject(fact)
    for similar in fact.similar:
        other = SelectorSubject(similar.field, similar.domain, similar.name)
        renamed = expressions.renamed(text, subject, other)
        if other.field == CAPACITY:
            renamed = _all_converted(renamed, other, expressions.QUANTITY)
        if other.field != subject.field:
            for candidate in _with_units(renamed):
                yield Rewrite(Rewriting.FIELD, candidate, subject.field, other.field)
        elif other.domain != subject.domain:
            yield Rewrite(Rewriting.DOMAIN, renamed, subject.domain, other.domain)
        else:
            yield Rewrite(Rewriting.NAME, renamed, subject.name, other.name)


def _retyped(text: str, observed: Observation) -> str:
    """Return the text with every constant converted to the type of the devices' values."""
    for subject, values in observed.values.items():
        types = {QUANTITY} if subject.field == CAPACITY else {value.type for value in values}
        if len(types) == 1:
            (kind,) = types
            text = _all_converted(text, subject, typed_values.FUNCTION_OF.get(kind, kind))
    return text


def _with_units(text: str) -> Iterator[str]:
    """Yield the text with Gi after plain numbers of quantities, then the text itself.

    `memory > 40` means 40 bytes to Kubernetes, which is hardly what was meant.
    """
    with_units = text
    for number in range(len(expressions.comparisons(text))):
        compared = expressions.comparisons(with_units)[number]
        constant = str(compared.constant)
        if compared.form == expressions.QUANTITY and constant.isdecimal():
            span = compared.span
            with_units = expressions.replaced(
                with_units, span, expressions.written(constant + "Gi")
            )
    if with_units != text:
        yield with_units
    yield text


def _all_converted(text: str, subject: SelectorSubject, kind: str) -> str:
    count = len(expressions.comparisons(text))
    for number in range(count):
        compared = expressions.comparisons(text)[number]
        if compared.subject == subject:
            text = expressions.converted(text, compared, kind) or text
    return text


def _equalities(observed: Observation) -> Iterator[Comparison]:
    for compared in expressions.comparisons(observed.facts.filter.expression):
        is_equality = compared.relation in ("==", "in")
        if is_equality and observed.values.get(compared.subject):
            yield compared


def _reachable_limits(observed: Observation, compared: Comparison) -> list[TypedValue]:
    """Return the limits that would let a device pass that is rejected now, the nearest first."""
    values = typed_values.ordered(observed.values.get(compared.subject, ()))
    limit = TypedValue(type_of(compared), str(compared.constant))
    if not values or values[0].type != limit.type or not typed_values.is_valid(limit):
        return []
    if compared.relation in _UPWARD:
        values.reverse()
    elif compared.relation not in _DOWNWARD:
        return []
    refused = [value for value in values if not _meets(value, compared.relation, limit)]
    # A device that has just the limit does not pass `>`: the next value is the one to ask for.
    return refused if compared.relation in (">=", "<=") else refused[1:]


def _meets(value: TypedValue, relation: str, limit: TypedValue) -> bool:
    match relation:
        case ">":
            return typed_values.is_less(limit, value)
        case ">=":
            return not typed_values.is_less(value, limit)
        case "<":
            return typed_values.is_less(value, limit)
    return not typed_values.is_less(limit, value)


def _with_value(observed: Observation, compared: Comparison, value: str, how: Rewriting) -> Rewrite:
    new = expressions.written(value) if isinstance(compared.constant, str) else value
    text = expressions.replaced(observed.facts.filter.expression, compared.span, new)
    return Rewrite(how, text, str(compared.constant), value)


def _subject(fact: SubjectFact) -> SelectorSubject:
    return SelectorSubject(fact.field, fact.domain, fact.name)
