"""What claims ask for, and when two of them ask for the same."""

from __future__ import annotations

from dray.allocator.model import requests
from tests import builders


def test_claims_that_differ_in_name_only_have_one_signature() -> None:
    one = builders.claim(builders.request(count=2), name="one")
    other = builders.claim(builders.request(count=2), name="other")
    assert requests.signature([one]) == requests.signature([other])


def test_claims_that_ask_for_something_else_have_another_signature() -> None:
    one = builders.claim(builders.request(count=2))
    other = builders.claim(builders.request(count=3))
    assert requests.signature([one]) != requests.signature([other])
    assert requests.signature([one, other]) != requests.signature([other, one])


def test_subrequests_become_options_in_order_of_preference() -> None:
    asked = builders.claim(
        builders.alternatives("any", builders.option("big", count=2), builders.option("small"))
    )
    (request,) = requests.parse_claim(asked.spec.devices).requests
    assert request.is_prioritized
    assert [(str(option.name), option.count) for option in request.alternatives] == [
        ("any/big", 2),
        ("any/small", 1),
    ]
