"""The path of a request: methods that are none of HTTP's, and a watch of one object."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.world import World

SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.mark.parametrize("method", ["LIST", "WATCH", "DELETECOLLECTION", "CREATE", "UPDATE"])
def test_a_verb_is_no_method(method: str) -> None:
    """Who may list one object by its name could list all of them, if `LIST` were a method."""
    world = World()
    world.create(SECRETS, {"metadata": {"name": "a"}})
    for path in (SECRETS, f"{SECRETS}/a"):
        assert world.ask(method, path).status == 405
    assert world.get(f"{SECRETS}/a")


def test_a_watch_of_one_object_by_its_path_is_a_get() -> None:
    world = World()
    world.create(SECRETS, {"metadata": {"name": "a"}})
    answer = world.ask("GET", f"{SECRETS}/a", query="watch=true")
    assert (answer.status, answer.body["kind"]) == (200, "Secret")
