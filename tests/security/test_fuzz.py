"""A share of what the fuzzers do: CEL expressions, and requests to API servers."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import types
import weakref

import pytest

from dray.cel import program
from dray.cel.program import Program
from dray.cel.runtime import values
from tests import rounds
from tests.pages import ROOT
from tests.security import fuzz_api, fuzz_cel, fuzz_judge, minimise
from tests.security.coverage_guide import Lines
from tests.security.fuzz_requests import Planned
from tests.wire.serving import Answer

pytestmark = [pytest.mark.slow, pytest.mark.random]

SECONDS = rounds.count(10, long=1800)
SLOW_SECONDS = rounds.count(20, long=1)
"""Tests that share a machine with others do not say what is slow; a long run does."""


def run(program: str, *options: str) -> None:
    """Run a fuzzer; what it prints says how to repeat a failure."""
    command = [sys.executable, "-m", f"tests.security.{program}", "--seconds", str(SECONDS)]
    ran = subprocess.run(
        [*command, "--seed", str(rounds.seed_of(0)), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS + 500,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout.decode()


@pytest.mark.timeout(SECONDS + 600)
def test_every_expression_ends_in_an_answer_or_an_error() -> None:
    run("fuzz_cel", "--slow", str(SLOW_SECONDS))


@pytest.mark.timeout(SECONDS + 600)
def test_an_api_server_answers_whatever_it_is_asked_and_stays_sound() -> None:
    run("fuzz_api", "--slow", str(SLOW_SECONDS))


@pytest.mark.timeout(SECONDS + 600)
def test_a_server_process_answers_whatever_comes_over_its_socket() -> None:
    run("fuzz_socket")


def test_the_same_seed_makes_the_same_expressions() -> None:
    made = []
    for _ in range(2):
        fuzzer = fuzz_cel.Fuzzer(7)
        for _ in range(50):
            fuzzer.step(SLOW_SECONDS)
        made.append(fuzzer.outcomes)
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[1] + [2]", "[1] + [3]"),
        ("[[1] + [2], [3] + [4]]", "[[1] + [2], [3] + [5]]"),
        ("{dyn([1]): [1] + [2]}", "{dyn([2]): [1] + [2]}"),
        ("optional.of([1] + [2])", "optional.of([1u] + [2u])"),
        ("optional.of(null)", "optional.none()"),
        ("[[1], []]", "[[], [1]]"),
    ],
)
def test_results_are_compared_by_their_parts(one: str, other: str) -> None:
    environment = fuzz_cel.places()[0].environment
    results = []
    for expression in (one, one, other):
        compiled = Program(program.check(expression, environment), environment)
        measured = compiled.measure(fuzz_cel.sample().fields)
        assert measured.error is None
        results.append(measured.value)
    first, again, different = map(fuzz_cel.described, results)
    assert first == again
    assert first != different


def test_results_without_end_are_compared_in_part() -> None:
    shared: values.CelList = [1]
    for _ in range(60):
        shared = values.Concatenation([shared], values.Concatenation(shared, shared))
    assert len(fuzz_cel.described(shared)) < 100_000


def test_code_whose_lines_were_followed_can_be_freed() -> None:
    code = compile("1", "<made>", "eval")
    reference = weakref.ref(code)
    lines = Lines(("cel",))
    with lines.followed():
        types.FunctionType(code, {})()
    del code
    gc.collect()
    assert reference() is None
    assert lines.seen == 0


def test_requests_survive_being_written_as_a_line() -> None:
    requests = [
        Planned("PATCH", "/a?b=c", {"accept": "x"}, b"\x00\xff", "view"),
        Planned("GET", "/", {}, b""),
    ]
    assert fuzz_api.requests_of(fuzz_api.line_of(requests)) == requests


SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.mark.parametrize(
    ("user", "method", "url"),
    [
        ("view", "GET", SECRETS),
        ("view", "POST", "/api/v1/namespaces/default/pods"),
        ("nobody", "GET", "/api/v1/pods?watch=true"),
        ("anonymous", "GET", "/apis"),
        ("anonymous", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ],
)
def test_the_judge_notices_rights_that_nobody_gave(user: str, method: str, url: str) -> None:
    request = Planned(method, url, {}, b"", user)
    assert "may" in fuzz_judge.wrong_answer(request, Answer(200, {}, b""))
    refusal = asyncio.run(fuzz_api.replayed([request], SLOW_SECONDS))
    assert refusal == ""


def test_the_judge_knows_what_kubernetes_calls_an_internal_error() -> None:
    request = Planned("GET", "/", {}, b"")
    assert fuzz_judge.wrong_answer(request, Answer(500, {}, b"an unexpected error"))
    for text in fuzz_judge.ALLOWED_5XX:
        assert fuzz_judge.wrong_answer(request, Answer(500, {}, text.encode())) == ""


def test_what_fails_is_made_smaller() -> None:
    assert minimise.text("aaaaxbbbyb", lambda part: "x" in part and "y" in part) == "xy"
    document = {"a": [1, {"b": 2, "c": 3}], "d": 4}
    assert minimise.document(document, lambda each: "'c'" in str(each)) == {"a": [{"c": 3}]}
