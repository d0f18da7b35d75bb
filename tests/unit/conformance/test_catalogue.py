"""The checks: enough of them, each with its texts, and chosen by id or group."""

from __future__ import annotations

import re

import pytest
from tools import make_conformance

from dray.conformance.check import ConformanceCheck
from dray.conformance.checks import catalogue


@pytest.mark.parametrize("check", catalogue.CHECKS, ids=lambda check: check.id)
def test_a_check_says_what_it_requires_and_what_to_do(check: ConformanceCheck) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", check.id)
    for text in (check.requirement, check.advice):
        assert text[0].isupper()
        assert text.endswith(".")
    assert check.source


def test_ids_are_unique_and_there_are_enough() -> None:
    ids = [check.id for check in catalogue.CHECKS]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 40


def test_groups_and_ids_choose() -> None:
    chosen = [check.id for check in catalogue.named(("upgrade", "slices.count"))]
    assert chosen == ["slices.count", "upgrade.beside", "upgrade.claims", "upgrade.handover"]
    with pytest.raises(LookupError, match="there is no check or group 'slice'"):
        catalogue.named(("slice",))


def test_the_page_has_every_check() -> None:
    written = make_conformance.TARGET.read_text("utf-8")
    assert written == make_conformance.page(), "run `make generate`"
