"""Other ways to write a selector, suggested by what devices publish.

First corrections of what can only be a mistake, then values that come close, then thresholds that
some device meets, then other values. Whether any of them helps is for others to try.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.explain.selectors import expressions, spelling, typed_values
from dray.explain.selectors.expressions import CAPACITY, Comparison, SelectorSubject
from dray.explain.selectors.typed_values import QUANTITY, TypedValue
from dray.explain.suggestions.changes import Rewriting
from dray.explain.survey.facts import Observation, SubjectFact, type_of

_SUGGESTIONS = 4
_UPWARD = (">=", ">")
_DOWNWARD = ("<=", "<")


class Rewrite(NamedTuple):
    """A selector written otherwise: `new` for `old`."""

    how: Rewriting
    text: str
    old: str = ""
    new: str = ""


def corrections(observed: Observation) -> Iterator[Rewrite]:
    """What is written wrong: names, domains, types, and attributes that not every device has."""
    text = observed.facts.filter.expression
    for fact in observed.facts.subjects:
        if not fact.devices:
            yield from _renamings(text, fact)
    retyped = _retyped(text, observed)
    if retyped != text:
        yield Rewrite(Rewriting.TYPE, retyped)
    partly = [fact for fact in observed.facts.subjects if 0 < fact.devices < fact.total]
    guarded = text
    for fact in reversed(partly):
        guarded = expressions.guarded(guarded, _subject(fact))
    if partly:
        yield Rewrite(Rewriting.GUARD, guarded, new=partly[0].name)


def spellings(observed: Observation) -> Iterator[Rewrite]:
    """Values that exist and differ from the one that is asked for only in how they are written."""
    for compared in _equalities(observed):
        values = [value.text for value in observed.values[compared.subject]]
        for close in spelling.written_otherwise(str(compared.constant), values)[:_SUGGESTIONS]:
            yield _with_value(observed, compared, close, Rewriting.SPELLING)


def thresholds(observed: Observation) -> Iterator[Rewrite]:
    """Limits that some device meets, the one nearest to what is asked for first."""
    for compared in expressions.comparisons(observed.facts.filter.expression):
        for limit in _reachable_limits(observed, compared)[:_SUGGESTIONS]:
            yield _with_value(observed, compared, limit.text, Rewriting.THRESHOLD)


def other_values(observed: Observation) -> Iterator[Rewrite]:
    """Values that exist, the most common first."""
    for compared in _equalities(observed):
        common = observed.values[compared.subject].most_common(_SUGGESTIONS)
        for value, _ in common:
            if value.text != str(compared.constant):
                yield _with_value(observed, compared, value.text, Rewriting.VALUE)


def shortenings(observed: Observation) -> Iterator[Rewrite]:
    """The selector without one of its clauses."""
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
            yield Rewrite(Rewriting.FIELD, renamed, subject.field, other.field)
        elif other.domain != subject.domain:
            yield Rewrite(Rewriting.DOMAIN, renamed, subject.domain, other.domain)
        else:
            yield Rewrite(Rewriting.NAME, renamed, subject.name, other.name)


def _retyped(text: str, observed: Observation) -> str:
    """The text with every constant of the type that the devices' values have."""
    for subject, found in observed.values.items():
        types = {QUANTITY} if subject.field == CAPACITY else {value.type for value in found}
        if len(types) == 1:
            (kind,) = types
            text = _all_converted(text, subject, typed_values.FUNCTION_OF.get(kind, kind))
    return text


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
    """The limits that let some device through which the present one keeps out."""
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
    text = expressions.replaced(observed.facts.filter.expression, compared.place, new)
    return Rewrite(how, text, str(compared.constant), value)


def _subject(fact: SubjectFact) -> SelectorSubject:
    return SelectorSubject(fact.field, fact.domain, fact.name)
