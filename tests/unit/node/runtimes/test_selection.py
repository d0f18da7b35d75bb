"""Which runtime is chosen, and what is said about it."""

from __future__ import annotations

import pytest

from dray.node.runtimes import podman, sandbox, selection
from dray.node.runtimes.interface import RuntimeUnusable


def refuse(_self: object) -> None:
    raise RuntimeUnusable("it does not work")


def accept(_self: object) -> None:
    return None


def test_the_first_that_works_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.Sandbox, "try_out", refuse)
    monkeypatch.setattr(podman.Podman, "try_out", accept)
    assert selection.choose(selection.AUTO).name == "podman"
    monkeypatch.setattr(sandbox.Sandbox, "try_out", accept)
    assert selection.choose(selection.AUTO).name == "sandbox"


def test_without_one_that_works_pods_run_in_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.Sandbox, "try_out", refuse)
    monkeypatch.setattr(podman.Podman, "try_out", refuse)
    chosen = selection.choose(selection.AUTO)
    assert (chosen.name, chosen.why) == ("none", "it does not work; it does not work")


def test_a_large_fleet_runs_in_name_only_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.Sandbox, "try_out", accept)
    assert selection.choose(selection.AUTO, machines=16).name == "sandbox"
    chosen = selection.choose(selection.AUTO, machines=17)
    assert chosen.name == "none"
    assert "17 machines" in chosen.why
    assert selection.choose("sandbox", machines=17).name == "sandbox"


def test_one_that_is_asked_for_and_does_not_work_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox.Sandbox, "try_out", refuse)
    with pytest.raises(RuntimeUnusable, match="it does not work"):
        selection.choose("sandbox")


def test_plain_processes_must_be_allowed() -> None:
    with pytest.raises(RuntimeUnusable, match="isolates nothing, so it needs --allow-host-access"):
        selection.choose("process")
    chosen = selection.choose("process", allows_host=True)
    assert chosen.runtime is not None
    assert "isolates nothing" in chosen.runtime.caution
