"""Throws hostile and mutated expressions at the CEL compiler and evaluator for a while.

Every expression must end, quickly, in a program, a compilation error or an evaluation error: any
other exception, a hang or growing memory is a finding. `python -m tests.security.fuzz_cel --seconds 300`.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator

from dray.api.types import dra
from dray.cel import device
from dray.cel.runtime import values

PER_EXPRESSION_SECONDS = 5.0
MAX_GROWTH_MIB = 300

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


def mutated(rng: random.Random) -> str:
    """A seed with pieces cut out, doubled, swapped with another seed, or replaced."""
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 6)):
        start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        piece = rng.choice((rng.choice(FRAGMENTS), rng.choice(SEEDS), text[start:end] * 2, ""))
        text = (
            text[:start] + piece + text[end:]
            if rng.random() < 0.7
            else text[:start] + piece + text[start:]
        )
    return text[:10240]


def noise(rng: random.Random) -> str:
    return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 200)))


def expressions(rng: random.Random) -> Iterator[str]:
    makers = (mutated, mutated, mutated, mutated, noise, hostile, doubling)
    while True:
        yield rng.choice(makers)(rng)


def sample() -> device.DeviceView:
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


def attempt(expression: str, view: device.DeviceView) -> str:
    """Compile and run one expression; the name of how it ended."""
    selector = device.compile_selector(expression, stored=True, list_type_attributes=True)
    if selector.error is not None:
        return f"error {selector.error.kind}"
    try:
        cost = selector.program.measure(view.fields).cost
        selector.matches(view)
    except values.CostExceeded:
        return "cost exceeded"
    except (values.EvaluationError, RecursionError):
        return "evaluation error"
    assert cost >= 0
    return "answered"


def memory_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    rng, view, outcomes = random.Random(seed), sample(), Counter[str]()
    slowest, before = (0.0, ""), 0
    end = time.monotonic() + arguments.seconds
    for number, expression in enumerate(expressions(rng)):
        started = time.monotonic()
        if started >= end:
            break
        if number == 2000:
            before = memory_mib()
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            outcomes[attempt(expression, view)] += 1
        except BaseException:
            print(f"seed {seed}, expression {number}: {expression!r}")
            raise
        took = time.monotonic() - started
        slowest = max(slowest, (took, expression))
        assert took < PER_EXPRESSION_SECONDS, f"{took:.1f} s for {expression!r}"
    faulthandler.cancel_dump_traceback_later()
    growth = memory_mib() - (before or memory_mib())
    assert growth < MAX_GROWTH_MIB, f"memory grew by {growth} MiB"
    print(f"seed {seed}: {sum(outcomes.values())} expressions, no crash, no hang, +{growth} MiB")
    for outcome, count in outcomes.most_common():
        print(f"  {count:8} {outcome}")
    print(f"  slowest: {slowest[0] * 1000:.0f} ms for {slowest[1][:80]!r}")


if __name__ == "__main__":
    main()
