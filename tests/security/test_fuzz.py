"""A share of what the fuzzers do: CEL expressions, and requests to API servers."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys

import pytest

from tests import rounds
from tests.pages import ROOT
from tests.security import fuzz_cel

pytestmark = [pytest.mark.slow, pytest.mark.random]

EXPRESSIONS = rounds.count(3000, long=300_000)
SERVER_SECONDS = rounds.count(5, long=300)


@pytest.mark.timeout(rounds.count(600, long=7200))
def test_every_hostile_selector_ends_in_an_answer_or_an_error() -> None:
    view, dice = fuzz_cel.sample(), random.Random(rounds.seed_of(0))
    for text in itertools.islice(fuzz_cel.expressions(dice), EXPRESSIONS):
        assert fuzz_cel.attempt(text, view), text


@pytest.mark.timeout(SERVER_SECONDS + 120)
def test_an_api_server_answers_whatever_it_is_asked() -> None:
    command = [sys.executable, "-m", "tests.security.fuzz_socket"]
    options = ["--seconds", str(SERVER_SECONDS), "--seed", str(rounds.seed_of(0))]
    ran = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SERVER_SECONDS + 60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout.decode()
