"""Throws made and mutated expressions at the CEL compiler and evaluator for a while.

`python -m tests.security.fuzz_cel --seconds 1800`: selectors of devices, and expressions over whole
objects as admission policies have them. Every expression must end within a second in a value, a
compilation error or an evaluation error, the same each time; both forms of code must agree, and
no evaluation may cost more than its limit or than its estimate. Expressions that reach new lines
are kept and mutated. What fails is made smaller and printed.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import faulthandler
import functools
import itertools
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dray.api.types import dra
from dray.cel import device, program, types
from dray.cel.checking import checker, constant_folding, environment, inference
from dray.cel.checking.environment import Environment
from dray.cel.code import source
from dray.cel.functions import runtime_costs
from dray.cel.issues import CompilationFailed
from dray.cel.program import Program
from dray.cel.runtime import regexes, times, values
from tests.security import minimise
from tests.security.cel_grammar import Grammar
from tests.security.coverage_guide import Lines

SLOW_SECONDS: Final = 1.0
MAX_GROWTH_MIB: Final = 300
MAX_KEPT: Final = 5000
MAX_LENGTH: Final = 10240
"""What Kubernetes allows of a selector."""
MAX_PARTS: Final = 1000
"""How much of a result is compared: lists that share their parts have no end."""

SEEDS = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model.lowerAscii().matches("^.*a100.*$")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.3"))',
    '"x" in device.attributes && has(device.attributes["gpu.example.com"].model)',
    "device.attributes.all(d, device.attributes[d].all(k, k != 'x'))",
    "[1, 2, 3].map(x, x * 2).filter(x, x > 2).exists(x, x == 4)",
    "device.attributes['gpu.example.com'].?nope.orValue('none') == 'none'",
    "cel.bind(x, [1, 2, 3], x.sum() == 6 && x.isSorted())",
    "['a', 'b'].join(',').split(',').transformList(i, v, i).size() == 2",
    "'%s %d %.2f'.format(['a', 1, 2.0]) == 'a 1 2.00'",
    "{'a': 1, 'b': 2}.transformMap(k, v, v + 1)['a'] == 2",
    "timestamp('2024-01-01T00:00:00Z') + duration('1h') > timestamp('2023-01-01T00:00:00Z')",
    "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
    "url('https://example.com:80/p?q=1').getHost() == 'example.com:80'",
    "type(1) == int && dyn(1) == 1.0 && 9223372036854775807 > 0 && 5 % 2 == 1",
    "lists.range(10).slice(2, 5) == [2, 3, 4] && [3, 1, 2].sort() == [1, 2, 3]",
    "optional.of(1).optMap(x, x + 1).value() == 2 ? true : false",
    "b'abc' + b'\\x00' == b'abc\\000' || r'\\d' != '''x''' // comment",
    "format.dns1123Label().validate('a').hasValue() || sets.contains([1], [1])",
)
FRAGMENTS = (
    *"()[]{}.,:?!+-*/%<>=&|'\"\\ \n\t0129abcuxerb_",
    *(
        "&&",
        "||",
        "==",
        "!=",
        ">=",
        " in ",
        "?.",
        "[?",
        "device",
        "true",
        "null",
        "1u",
        "1e9",
        "''",
    ),
    *(
        "0x",
        "9223372036854775808",
        "'\\u00e9'",
        "\x00",
        "é",
        "𝒳",
        "\ud800",
        "```",
        "has(",
        "map(",
        "all(",
    ),
    *(
        ".exists(x, ",
        ".map(x, ",
        "dyn(",
        "quantity(",
        "matches('(",
        "{1,1000}",
        "\\\\C",
        "(?i)",
        "[[:alpha:]]",
    ),
)
WRAPPERS = (
    ("(", ")"),
    ("[", "]"),
    ("!(", ")"),
    ("{'k': ", "}"),
    ("[1].map(x, ", ")"),
    ("dyn(", ")"),
)


def hostile(rng: random.Random) -> str:
    """One expression of a kind that breaks naive compilers: depth, length, repetition."""
    size = rng.choice((10, 50, 249, 251, 1000, 5000))
    left, right = rng.choice(WRAPPERS)
    forms = (
        left * size + "1" + right * size,
        left * size,
        "-" * size + "1",
        "!" * size + "true",
        "1" + rng.choice(("+1", " && true", "||false", ".x", "[0]", "?1:2")) * size,
        "'" + rng.choice(("a", "\\n", "é", "\\x41")) * size + "'",
        "9" * size,
        "[" + "1," * size + "1]",
        "'a'.matches('" + "(a*)*" * (size // 10) + "')",
        "'" + "a" * size + "'.replace('a', '" + "b" * size + "')",
    )
    return rng.choice(forms)


def doubling(rng: random.Random) -> str:
    """Nested loops and growing values: only the cost limit ends these."""
    depth = rng.randint(1, 12)
    text = "[1,2,3,4,5,6,7,8,9]"
    for level in range(depth):
        body = rng.choice((f"x{level} + x{level}", f"[x{level}, x{level}]", f"x{level}"))
        text = f"{text}.map(x{level}, {body})" if level % 2 else f"[{text}, {text}]"
    return f"{text}.size() > 0"


def mutated(rng: random.Random, seeds: Sequence[str] = SEEDS) -> str:
    """A seed with pieces cut out, doubled, swapped with another seed, or replaced."""
    text = rng.choice(seeds)
    for _ in range(rng.randint(1, 6)):
        start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        piece = rng.choice((rng.choice(FRAGMENTS), rng.choice(seeds), text[start:end] * 2, ""))
        text = (
            text[:start] + piece + text[end:]
            if rng.random() < 0.7
            else text[:start] + piece + text[start:]
        )
    return text[:MAX_LENGTH]


def noise(rng: random.Random) -> str:
    return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 200)))


class Place(NamedTuple):
    """Where expressions run: what they may use, and values for it."""

    name: str
    environment: Environment
    variables: tuple[Any, ...]


def sample() -> device.DeviceView:
    """A device with an attribute of each type."""
    attributes = {
        "model": dra.DeviceAttribute(string_value="NVIDIA A100"),
        "version": dra.DeviceAttribute(version_value="2.0.0"),
        "index": dra.DeviceAttribute(int_value=3),
        "other.com/links": dra.DeviceAttribute(string_values=("a", "b")),
    }
    capacity = {"memory": dra.DeviceCapacity(value="80Gi")}
    return device.view(
        "gpu.example.com", dra.Device(name="gpu-0", attributes=attributes, capacity=capacity)
    )


OBJECT: Final[Mapping[str, Any]] = {
    "a": 1,
    "metadata": {"name": "x", "labels": {"a": "b"}},
    "spec": {"list": [1, 2, 3], "nested": [[1], ["a", {"b": None}]], "text": "é" * 50, "d": 1.5},
}


@functools.cache
def places() -> tuple[Place, ...]:
    """Selectors of new and stored objects, and an admission policy over whole objects."""
    fields = sample().fields
    new = environment.device_environment(
        stored=False, consumable_capacity=True, list_type_attributes=False
    )
    stored = environment.device_environment(
        stored=True, consumable_capacity=True, list_type_attributes=True
    )
    objects = dict.fromkeys(("object", "oldObject", "params"), types.DYN)
    policy = dataclasses.replace(
        stored,
        variables={**objects, "request": types.map_of(types.STRING, types.DYN)},
        extents={},
    )
    return (
        Place("new selector", new, (fields,)),
        Place("stored selector", stored, (fields,)),
        Place("policy", policy, (OBJECT, None, {"a": [1]}, OBJECT)),
    )


class Wrong(Exception):
    """Something that no expression may cause."""


def attempt(expression: str, place: Place) -> str:
    """Compile and run one expression; the name of how it ended. Raises Wrong."""
    try:
        checked = program.check(expression, place.environment)
        compiled = Program(checked, place.environment)
    except (CompilationFailed, constant_folding.InstantiationFailed) as error:
        return f"error {type(error).__name__}"
    measured, again = (_measured(compiled, place) for _ in range(2))
    if _told(measured.value, measured.error) != _told(again.value, again.error):
        raise Wrong("two evaluations differ")
    if measured.cost != again.cost:
        raise Wrong(f"two evaluations cost {measured.cost} and {again.cost}")
    _check_cost(compiled, measured, checked)
    _check_forms(compiled, place, measured)
    if measured.error is None:
        return "answered"
    return type(measured.error).__name__


def _measured(compiled: Program, place: Place) -> program.Measurement:
    try:
        return compiled.measure(*place.variables)
    except RecursionError:
        # The callers of programs make an evaluation error of it.
        return program.Measurement(None, values.EvaluationError("values nest too deep"), 0)


def _check_cost(compiled: Program, measured: program.Measurement, checked: Any) -> None:
    is_over = measured.cost > values.COST_LIMIT
    if is_over and not isinstance(measured.error, values.CostExceeded):
        raise Wrong(f"an evaluation went on past the limit: {measured.cost}")
    names = {reference.name for reference in checked.references.values()}
    is_estimated = not names & runtime_costs.AMPLIFYING
    # cel-go's estimate, too, is short of a step here and there, and of much for a call with an
    # empty text: it bounds the order of the work.
    most = 10 * compiled.estimated_cost + 500
    if is_estimated and measured.error is None and measured.cost > most:
        raise Wrong(f"an evaluation cost {measured.cost}, estimated {compiled.estimated_cost}")


def _check_forms(compiled: Program, place: Place, measured: program.Measurement) -> None:
    """Compare with what the code gives that components run."""
    value: Any = None
    error: values.EvaluationError | values.CostExceeded | None = None
    try:
        value = compiled.evaluate(*place.variables)
    except RecursionError:
        error = values.EvaluationError("values nest too deep")
    except (values.EvaluationError, values.CostExceeded) as raised:
        error = raised
    if _told(value, error) != _told(measured.value, measured.error):
        told = _told(value, error), _told(measured.value, measured.error)
        raise Wrong(f"the plain code and the counted code differ: {told}")


def _told(value: Any, error: Exception | None) -> str:
    """Return a result as text: which of several errors comes first is not promised."""
    return type(error).__name__ if error is not None else described(value)


def described(value: Any) -> str:
    """Return a value as text by its parts, because the `repr` of some of them is an address."""
    told, pending = list[str](), [value]
    while pending and len(told) < MAX_PARTS:
        part = pending.pop()
        inside = _parts(part)
        if inside is None:
            told.append(f"{type(part).__name__} {part!r}")
        else:
            first = [*itertools.islice(inside, MAX_PARTS)]
            told.append(f"{type(part).__name__} of {len(first)}")
            pending += reversed(first)
    return ", ".join(told)


def _parts(value: Any) -> Iterable[Any] | None:
    """Return what a list, a map or an optional holds; None of any other value."""
    if value.__class__ in values.LIST_CLASSES:
        elements: Sequence[Any] = value
        return elements
    if value.__class__ in values.MAP_CLASSES:
        return itertools.chain.from_iterable(zip(values.keys(value), value.values(), strict=True))
    if value.__class__ is values.Optional and value.has_value:
        return (value.value,)
    return None


def forget() -> None:
    """Empty the compiler's caches: with the same seed, the same lines are to run."""
    for module in (checker, inference, source, regexes, times):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


class Fuzzer:
    """Makes expressions, and keeps those that reach new lines of the compiler or its functions."""

    def __init__(self, seed: int) -> None:
        forget()
        self._random = random.Random(seed)
        self._lines = Lines(("cel", "api/formats"))
        self._kept: collections.deque[str] = collections.deque(SEEDS, maxlen=MAX_KEPT)
        self._grammars = [Grammar(self._random, place.environment) for place in places()]
        self.outcomes: Counter[str] = Counter()
        self.slowest = (0.0, "")

    def step(self, slow_seconds: float) -> None:
        """Try one expression. Raises Wrong with the expression, made smaller."""
        number = self._random.randrange(len(places()))
        text, place = self._next(number), places()[number]
        before, started = self._lines.seen, time.thread_time()
        with self._lines.followed():
            outcome, wrong = _outcome(text, place)
        seconds = time.thread_time() - started
        self.slowest = max(self.slowest, (seconds, text))
        if self._lines.seen > before:
            self._kept.append(text)
        if seconds > slow_seconds:
            # Following the lines takes its time, too: measure again without.
            seconds = _cpu_seconds(text, place)
            wrong = wrong or (f"took {seconds:.1f} s" if seconds > slow_seconds else "")
        if wrong:
            shorter = minimise.text(text, lambda part: _is_wrong(part, place, slow_seconds))
            raise Wrong(f"{wrong} ({place.name}): {shorter!r}")
        self.outcomes[outcome] += 1

    def _next(self, number: int) -> str:
        makers: tuple[Callable[[], str], ...] = (
            self._grammars[number].expression,
            self._grammars[number].expression,
            lambda: mutated(self._random, self._kept),
            lambda: mutated(self._random, self._kept),
            lambda: noise(self._random),
            lambda: hostile(self._random),
            lambda: doubling(self._random),
        )
        return self._random.choices(makers, (30, 30, 30, 30, 3, 1, 3))[0]()[:MAX_LENGTH]

    def summary(self) -> str:
        seconds, text = self.slowest
        outcomes = ", ".join(f"{count} × {name}" for name, count in self.outcomes.most_common())
        return (
            f"{self.outcomes.total()} expressions: {outcomes}\n{self._lines.seen} lines reached, "
            f"{len(self._kept)} kept; the slowest took {seconds:.2f} s: {text[:200]!r}"
        )


def _outcome(text: str, place: Place) -> tuple[str, str]:
    """Return how an expression ended, and what was wrong."""
    try:
        return attempt(text, place), ""
    except Wrong as wrong:
        return "wrong", str(wrong)
    except Exception as error:  # noqa: BLE001  what the fuzzer looks for
        return "wrong", f"{type(error).__name__}: {error}"


def _is_wrong(text: str, place: Place, slow_seconds: float) -> bool:
    return bool(_outcome(text, place)[1]) or _cpu_seconds(text, place) > slow_seconds


def _cpu_seconds(text: str, place: Place) -> float:
    started = time.thread_time()
    _outcome(text, place)
    return time.thread_time() - started


def memory_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--slow", type=float, default=SLOW_SECONDS, help="CPU seconds each")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    fuzzer, found, before = Fuzzer(seed), list[str](), 0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            fuzzer.step(arguments.slow)
        except Wrong as wrong:
            found.append(str(wrong))
            print(f"BROKEN {wrong}", flush=True)
        if fuzzer.outcomes.total() == 2000:
            before = memory_mib()
    faulthandler.cancel_dump_traceback_later()
    growth = memory_mib() - (before or memory_mib())
    print(f"seed {seed}, +{growth} MiB\n{fuzzer.summary()}")
    sys.exit(1 if found or growth > MAX_GROWTH_MIB else 0)


if __name__ == "__main__":
    main()
