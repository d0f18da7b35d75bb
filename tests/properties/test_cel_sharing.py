"""What the compiler remembers of earlier expressions changes nothing about later ones.

Overloads that were found for the same types, and code that differs in its constants alone, are made
once for all expressions. Here the same expression gets many constants, and each variant is compared
with itself when it is the first that the compiler sees.
"""

from __future__ import annotations

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from dray.cel import program
from dray.cel.checking import constant_folding
from dray.cel.issues import CompilationFailed
from dray.cel.program import Program
from dray.cel.runtime.values import CostExceeded, EvaluationError
from tests import rounds
from tests.security import fuzz_cel
from tests.security.cel_grammar import Grammar
from tests.security.fuzz_cel import Place

VARIANTS = 6
LITERAL = re.compile(r"""\b\d+(?:\.\d+)?u?\b|"[^"\\]*"|'[^'\\]*'|\btrue\b|\bfalse\b|\bnull\b""")
CONSTANTS = (
    *("0", "1", "-1", "3", "9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    *("0u", "7u", "0.0", "1.5", "true", "false", "null", '""', '"model"', '"memory"', '"40Gi"'),
    *('"1.2.3"', '"a("', '"^a.*$"', '"10m"', '"%d"', f'"{"x" * 500}"', "[]", '["a", "b"]'),
)


def described(text: str, place: Place) -> list[str]:
    """Return all that is known of an expression, as texts."""
    try:
        checked = program.check(text, place.environment)
        compiled = Program(checked, place.environment)
    except (CompilationFailed, constant_folding.InstantiationFailed) as failure:
        return [type(failure).__name__, str(failure)]
    value, error, cost = compiled.measure(*place.variables)
    told = [
        *(str(checked.types), str(checked.references), str(sorted(compiled.reads))),
        *(str(compiled.estimated_cost), compiled.code_form),
        *(str(cost), repr(error), fuzz_cel.described(value)),
    ]
    try:
        told.append(fuzz_cel.described(compiled.evaluate(*place.variables)))
    except (EvaluationError, CostExceeded) as failed:
        told.append(repr(failed))
    return told


def first_described(text: str, place: Place) -> list[str]:
    fuzz_cel.forget()
    return described(text, place)


@rounds.examples(150, long=5_000)
@given(seed=st.integers(0, 2**32))
def test_an_expression_means_the_same_whatever_was_compiled_before(seed: int) -> None:
    rng = random.Random(seed)
    place = rng.choice(fuzz_cel.places())
    text = rng.choice((Grammar(rng, place.environment).expression(), rng.choice(fuzz_cel.SEEDS)))
    variants = [text]
    for _ in range(VARIANTS):
        variants.append(LITERAL.sub(lambda _: rng.choice(CONSTANTS), text))
    alone = [first_described(variant, place) for variant in variants]
    fuzz_cel.forget()
    assert [described(variant, place) for variant in variants] == alone
    assert [described(variant, place) for variant in reversed(variants)] == alone[::-1]
