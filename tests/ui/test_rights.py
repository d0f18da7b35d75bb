"""What people see follows their rights, and who have the same share one model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui.browser import Browser
from tests.ui.processes import (
    DRA,
    READ,
    Up,
    claim,
    namespace,
    pod,
    role,
    service_account,
)
from tests.waiting import block_until

DEVICES = (READ, DRA, "resourceslices deviceclasses")
NODES = (READ, "", "nodes namespaces")
OWN = ((READ, DRA, "resourceclaims"), (READ, "", "pods events"))


@pytest.fixture(scope="module")
def cluster(up: Up) -> Up:
    up.create(namespace("team-a"), namespace("team-b"))
    up.create(service_account("everywhere"), *role("everywhere", "", DEVICES, NODES, *OWN))
    for team in ("team-a", "team-b"):
        user = f"of-{team}"
        up.create(service_account(user), *role(user, "", DEVICES, NODES), *role(user, team, *OWN))
        up.create(claim(f"{team}-held", team), pod(f"{team}-runs", f"{team}-held", team))
        up.create(claim(f"{team}-many", team, count=77), pod(f"{team}-waits", f"{team}-many", team))
    up.create(service_account("nobody"))
    up.create(service_account("nodes-only"), *role("nodes-only", "", NODES))
    return up


def logged_in(up: Up, account: str) -> Browser:
    browser = up.secure()
    answer = browser.log_in(token=up.token(account))
    assert answer.status == 200, answer
    return browser


def test_users_of_one_namespace_see_theirs(cluster: Up) -> None:
    browser = logged_in(cluster, "of-team-a")
    with browser.stream() as stream:
        state = stream.until(
            lambda state: (
                list(state["counts"].items())
                and state["counts"].get("in use") == 2
                and "pod/team-a/team-a-waits" in state["waiting"]
            ),
            "both devices in use, and the own pod",
        )
    text = str(state)
    assert "team-b" not in text
    own = [cell for cell in state["cells"].values() if "team-a/team-a-held" in cell.get("h", ())]
    assert len(own) == 1
    assert own[0]["u"] == ["team-a/team-a-runs"]
    others = [
        cell for cell in state["cells"].values() if cell["st"] == "in use" and "h" not in cell
    ]
    assert len(others) == 1
    assert any(
        line.startswith("ResourceClaim of other namespaces:") for line in state["unreadable"]
    )
    for path in ("pod/team-b/team-b-runs", "claim/team-b/team-b-held"):
        assert browser.get(path).status == 403, path
    assert browser.get("explain/pod/team-b/team-b-waits").status == 404
    assert browser.get("explain/pod/team-a/team-a-waits").status == 200
    for key, cell in state["cells"].items():
        if cell["st"] == "in use":
            assert "team-b" not in str(browser.device(key))
            moments = browser.get("history/at?time=2099-01-01T00:00:00Z").body
            assert b"team-b" not in moments
            assert b"team-b" not in browser.get(f"history/device?key={key}").body
    assert b"team-b" not in browser.get("health").body
    (gpu,) = [
        item
        for item in browser.get("capacity").document["classes"]
        if item["class"] == "gpu.nvidia.com"
    ]
    assert gpu["held"] == 2
    assert gpu["fits"] is None
    assert _counts_of_waiting(browser) == {None}
    assert None not in _counts_of_waiting(logged_in(cluster, "everywhere"))


def _counts_of_waiting(browser: Browser) -> set[float | None]:
    """Return how many pods waited for GPUs, which says something about all namespaces."""

    def points() -> list[dict[str, Any]]:
        document = browser.get("history/usage?buckets=2").document
        found: list[dict[str, Any]] = document["classes"].get("gpu.nvidia.com", [])
        return found

    # The recorder writes a little later than the page shows.
    return {point["waiting"] for point in block_until(points, "the use of GPUs being recorded")}


def test_who_may_read_nothing_sees_nothing_and_what_is_missing(cluster: Up) -> None:
    browser = logged_in(cluster, "nobody")
    with browser.stream() as stream:
        state = stream.first()
    assert (state["cells"], state["nodes"], state["waiting"]) == ({}, {}, {})
    missing = {line.partition(":")[0] for line in state["unreadable"]}
    assert {"Node", "ResourceSlice", "ResourceClaim", "Pod"} <= missing
    assert not browser.session["canAct"]
    for path in ("node/gpu-0", "history/span", "history/at?time=2099-01-01T00:00:00Z"):
        assert browser.get(path).status == 403, path
    for action in (
        {"action": "cordon", "node": "gpu-0"},
        {"action": "delete-pod", "namespace": "team-a", "name": "team-a-runs"},
        {"action": "taint-device", "device": "gpu.nvidia.com/gpu-0/gpu-0"},
    ):
        assert browser.post("actions", action).status in (403, 404), action
    assert cluster.cluster.dray("get", "pod", "team-a-runs", "-n", "team-a").exit_code == 0


def test_a_kind_that_may_not_be_read_is_named(cluster: Up) -> None:
    with logged_in(cluster, "nodes-only").stream() as stream:
        state = stream.first()
    assert state["nodes"].keys() == {"gpu-0", "gpu-1", "mig-0"}
    assert state["cells"] == {}
    assert any(line.startswith("ResourceSlice: ") for line in state["unreadable"])


def test_equal_rights_share_a_model_and_other_rights_do_not(cluster: Up) -> None:
    def log(browser: Browser) -> str:
        with browser.stream() as stream:
            stream.first()
            return stream.last.partition("-")[0]

    first, again = logged_in(cluster, "everywhere"), logged_in(cluster, "everywhere")
    team = logged_in(cluster, "of-team-a")
    assert log(first) == log(again)
    assert log(first) != log(team)


def test_new_rights_show_on_an_open_stream(cluster: Up) -> None:
    cluster.create(service_account("grows"), *role("grows", "", NODES))
    browser = logged_in(cluster, "grows")
    with browser.stream() as stream:
        assert stream.first()["cells"] == {}
        cluster.create(*role("grows", "", NODES, DEVICES))
        # Rights are looked at again at least every 30 s.
        stream.until(lambda state: state["cells"], "devices")
        cluster.delete("clusterrolebinding", "grows")
        stream.until(lambda state: not state["cells"] and not state["nodes"], "nothing")


def test_a_deleted_account_is_logged_out(cluster: Up) -> None:
    cluster.create(service_account("leaves"), *role("leaves", "", NODES))
    browser = logged_in(cluster, "leaves")
    with browser.stream() as stream:
        stream.first()
        cluster.delete("serviceaccount", "leaves")
        for _ in stream.events():
            pass
    block_until(lambda: browser.get("session").status == 401, "the end of the session")


def test_a_certificate_logs_in(up: Up) -> None:
    browser = up.secure(with_certificate=True)
    assert browser.log_in(certificate=True).document["user"] == "admin"
    assert browser.session["canAct"]
    assert up.secure().log_in(certificate=True).status == 401
