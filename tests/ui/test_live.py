"""The dashboard of a real `dray up`: what is shown, and that it changes with the cluster."""

from __future__ import annotations

import datetime
import gzip
import json
import time
from urllib.parse import quote

from tests.ui.browser import Browser
from tests.ui.processes import Up, claim, namespace, pod
from tests.waiting import block_until

GPU = "gpu.nvidia.com/gpu-0/gpu-0"
MIG = "gpu.nvidia.com/mig-0/gpu-0"
DRIVER = 'device.driver == "gpu.nvidia.com"'
DASHBOARD_SECONDS = 1.0


def test_the_snapshot_is_that_of_get_devices(up: Up, admin: Browser) -> None:
    found = up.cluster.dray("get", "devices", "-o", "json")
    devices = {
        f"{item['driver']}/{item['pool']}/{item['name']}": item
        for item in json.loads(found.stdout)["items"]
    }
    with admin.stream() as stream:
        state = stream.first()
    wholes = {key for key, item in devices.items() if not item.get("partitionOf")}
    assert state["cells"].keys() == wholes
    assert state["nodes"].keys() == {item["node"] for item in devices.values()}
    assert sum(state["counts"].values()) == len(wholes)
    for key, cell in state["cells"].items():
        shape = state["shapes"][cell["s"]]
        assert cell["n"] == devices[key]["node"]
        assert shape["model"] == devices[key]["model"]
        assert shape["slots"] == (8 if key == MIG else 0)
        assert "gpu.nvidia.com" in shape["classes"]
    assert state["unreadable"] == []


def test_a_cell_changes_within_a_second_of_the_write(up: Up, admin: Browser) -> None:
    with admin.stream() as stream:
        stream.first()
        up.create(claim("quick"), pod("quick", "quick"))
        began = time.monotonic()
        held = stream.until(lambda state: _holder(state, "default/quick"), "the claim on a cell")
        took = time.monotonic() - began
        key = _holder(held, "default/quick")
        assert held["cells"][key]["st"] == "in use"
        assert held["cells"][key]["u"] == ["default/quick"]
        assert held["counts"]["in use"] == 1
        # The process of `dray apply` ended before: the write is older than what was measured.
        assert took < DASHBOARD_SECONDS
        up.delete("pod", "quick")
        up.delete("resourceclaim", "quick")
        free = stream.until(lambda state: state["cells"][key]["st"] == "free", "a free cell")
        assert "h" not in free["cells"][key]


def _holder(state: dict[str, dict[str, dict[str, list[str]]]], name: str) -> str:
    held = (key for key, cell in state["cells"].items() if name in cell.get("h", ()))
    return next(held, "")


def _held(admin: Browser, name: str, since: str) -> float:
    """Return how many devices of a class were held on average since a time."""
    usage = admin.get(f"history/usage?buckets=1&since={since}").document["classes"]
    return float(usage[name][0]["held"]) if name in usage else 0.0


def test_partitions_are_at_their_places(up: Up, admin: Browser) -> None:
    with admin.stream() as stream:
        stream.first()
        up.create(claim("half", deviceClassName="mig.nvidia.com"), pod("half", "half"))
        state = stream.until(lambda state: state["cells"][MIG].get("p"), "a partition")
        cell = state["cells"][MIG]
        (part,) = cell["p"]
        page = admin.device(part["k"])
        facts = {fact["label"]: fact["value"] for fact in page["facts"]}
        assert (facts["Attribute placementStart"], facts["Attribute placementSize"]) == (
            str(part["o"]),
            str(part["w"]),
        )
        assert facts["Partition of"] == MIG
        assert (cell["st"], cell["f"]) == ("shared", round(100 * part["w"] / 8))
        assert part["h"] == ["default/half"]
        # Its GPU is in use, although this other class selects it.
        since = quote(datetime.datetime.now(datetime.UTC).isoformat())
        # The record may begin some tenths of a second later.
        block_until(lambda: _held(admin, "gpu.nvidia.com", since) > 0.5, "the use of the GPU")
        up.delete("pod", "half")
        up.delete("resourceclaim", "half")
        stream.until(lambda state: not state["cells"][MIG].get("p"), "no partition")


def test_a_waiting_pod_has_the_reason_of_explain(up: Up, admin: Browser) -> None:
    up.create(claim("many", count=99), pod("many", "many"), claim("alone"))
    with admin.stream() as stream:
        state = stream.until(
            lambda state: all(
                state["waiting"].get(key, {}).get("reason")
                for key in ("pod/default/many", "claim/default/alone")
            ),
            "two reasons",
        )
    for key, name in (("pod/default/many", "pod/many"), ("claim/default/alone", "claim/alone")):
        printed = up.cluster.dray("explain", name).stdout
        waiting = state["waiting"][key]
        assert waiting["reason"] == printed.splitlines()[0]
        explained = admin.get(f"explain/{key}").document
        assert explained["headline"] == waiting["reason"]
        assert explained["text"].splitlines() == printed.rstrip().splitlines()
        if explained["fix"]:
            assert f"fix: {waiting['fix']}" in printed
            assert explained["fix"]["text"] == waiting["fix"]
    assert state["waiting"]["claim/default/alone"]["short"] == "no pod uses it"
    # What pods use is a part of their line.
    assert "claim/default/many" not in state["waiting"]
    up.delete("pod", "many")
    up.delete("resourceclaim", "many", "alone")


def test_a_failing_device_is_marked(up: Up, admin: Browser) -> None:
    with admin.stream() as stream:
        stream.first()
        assert up.cluster.dray("fleet", "fail", "gpu-1", "gpu-0").exit_code == 0
        key = "gpu.nvidia.com/gpu-1/gpu-0"
        state = stream.until(lambda state: state["cells"][key].get("m"), "a mark")
        assert "unhealthy" in state["cells"][key]["m"]
        taints = [fact for fact in admin.device(key)["facts"] if fact["label"] == "Taint"]
        assert taints
        health = admin.get("health").document
        assert any("has the taint" in finding["text"] for finding in health["findings"])
        assert up.cluster.dray("fleet", "heal", "gpu-1", "gpu-0").exit_code == 0
        stream.until(lambda state: not state["cells"][key].get("m"), "no mark")


def test_a_stream_goes_on_where_it_was(up: Up, admin: Browser) -> None:
    with admin.stream() as stream:
        stream.first()
        last, number = stream.last, stream.state["seq"]
    up.create(namespace("later"), claim("later", "later"))
    waits = "claim/later/later"
    with admin.stream() as stream:
        stream.until(lambda state: waits in state["waiting"], "the claim")
        up_to = stream.state["seq"]
    with admin.stream(last) as stream:
        stream.state = {"seq": number, "shapes": {}, "nodes": {}, "cells": {}, "waiting": {}}
        stream.until(lambda state: state["seq"] >= up_to, "all changes")
        assert waits in stream.state["waiting"]
        assert not stream.state["cells"]
    for unknown in ("ffffffff-1", "nonsense", f"{last.partition('-')[0]}-999999999"):
        with admin.stream(unknown) as stream:
            assert len(stream.first()["cells"]) == 5
    up.delete("resourceclaim", "later", "-n", "later")


def test_filters_have_the_errors_of_selectors(up: Up, admin: Browser) -> None:
    del up
    by_driver = admin.get(f"filter?expression={_quoted(DRIVER)}").document
    assert len(by_driver["cells"]) == 5
    profile = 'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "1g.10gb"'
    found = admin.get(f"filter?expression={_quoted(profile)}").document
    assert found["cells"] == [MIG]
    unguarded = 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'
    failing = admin.get(f"filter?expression={_quoted(unguarded)}").document
    assert (failing["cells"], failing["failing"]) == ([MIG], 5)
    assert "no such key: profile" in failing["message"]
    wrong = admin.get(f"filter?expression={_quoted(DRIVER.replace('driver', 'drivr'))}")
    assert wrong.status == 400
    document = wrong.document
    assert (document["line"], document["column"]) == (1, 7)
    assert document["message"] == "undefined field 'drivr'"
    assert document["suggestion"] == DRIVER


def _quoted(text: str) -> str:
    return quote(text, safe="")


def test_pages_join_claim_device_node_and_container(up: Up, admin: Browser) -> None:
    up.create(claim("joined"), pod("joined", "joined"))
    block_until(
        lambda: (
            admin.get("pod/default/joined").document.get("facts", [{}])[0].get("value") == "Running"
        ),
        "a running pod",
    )

    def scheduled() -> bool:
        found = admin.get("pod/default/joined").document["events"]
        return "Scheduled" in [event["reason"] for event in found]

    block_until(scheduled, "the event of the scheduler")
    page = admin.get("pod/default/joined").document
    steps = [step["step"] for step in page["chain"]]
    assert steps == ["claim", "request", "device", "node", "container"]
    assert [step["state"] for step in page["chain"]] == [
        *("allocated, reserved", "served", "in use", "ready", "running"),
    ]
    links = {step["step"]: step["link"] for step in page["chain"] if "link" in step}
    assert links["claim"] == {"kind": "claim", "ns": "default", "name": "joined"}
    assert "managedFields" not in page["yaml"]
    assert "name: joined" in page["yaml"]
    of_claim = admin.get("claim/default/joined").document
    assert [step["step"] for step in of_claim["chain"]] == [
        *("claim", "request", "device", "node", "pod", "container"),
    ]
    device = admin.device(links["device"]["key"])
    assert {"label": "Held by", "value": "default/joined", "link": links["claim"]} in device[
        "facts"
    ]
    node = admin.get(f"node/{links['node']['name']}").document
    assert links["device"]["key"] in [step["text"] for step in node["chain"]]
    for path in ("pod/default/nobody", "claim/default/nobody", "node/nobody", "nothing", "pod/a"):
        assert admin.get(path).status == 404, path
    assert admin.get("device?key=a/b/c").status == 404
    assert admin.get("device?key=a").status == 400
    assert admin.get("device").status == 400
    up.delete("pod", "joined")
    up.delete("resourceclaim", "joined")


def test_capacity_is_that_of_plan_capacity(up: Up, admin: Browser) -> None:
    printed = json.loads(up.cluster.dray("plan", "capacity", "-o", "json").stdout)
    expected = {item["name"]: (item["pods"], item["limit"]) for item in printed["capacity"]}
    found = {item["class"]: item for item in admin.get("capacity").document["classes"]}
    assert {name: (item["fits"], item["limit"]) for name, item in found.items()} == expected
    assert found["gpu.nvidia.com"]["total"] == 5
    assert found["mig.nvidia.com"]["total"] == 1


def test_history_says_who_held_a_device(up: Up, admin: Browser) -> None:
    up.create(claim("past"), pod("past", "past"))

    def held() -> str:
        with admin.stream() as stream:
            return _holder(stream.first(), "default/past")

    key = block_until(held, "a holder")

    def periods() -> list[dict[str, str]]:
        found = admin.get(f"history/device?key={_quoted(key)}").document["periods"]
        return [period for period in found if period["claim"] == "default/past"]

    (period,) = block_until(periods, "a period")
    moment = block_until(
        lambda: admin.get("history/at?time=2099-01-01T00:00:00Z").document["cells"].get(key),
        "a moment",
    )
    assert moment["h"] == ["default/past"]
    assert moment["st"] == "in use"
    span = admin.get("history/span").document
    assert span["since"] <= period["since"]
    usage = admin.get("history/usage?buckets=4").document["classes"]["gpu.nvidia.com"]
    assert len(usage) == 4
    for wrong in ("at", "at?time=yesterday", "at?time=2020-01-01T00:00:00", "usage?buckets=0"):
        assert admin.get(f"history/{wrong}").status == 400, wrong
    up.delete("pod", "past")
    up.delete("resourceclaim", "past")


def test_actions_do_what_they_say(up: Up, admin: Browser) -> None:
    assert admin.session["canAct"]
    up.create(claim("acted"), pod("acted", "acted"))
    with admin.stream() as stream:
        stream.first()
        assert admin.post("actions", {"action": "cordon", "node": "gpu-0"}).status == 200
        stream.until(lambda state: state["nodes"]["gpu-0"]["cordoned"], "a cordoned node")
        assert admin.post("actions", {"action": "uncordon", "node": "gpu-0"}).status == 200
        stream.until(lambda state: not state["nodes"]["gpu-0"]["cordoned"], "an uncordoned node")
        taint = {"action": "taint-device", "device": GPU, "effect": "NoSchedule"}
        assert admin.post("actions", taint).status == 200
        stream.until(lambda state: state["cells"][GPU].get("m") == ["tainted"], "a taint")
        assert admin.post("actions", {"action": "untaint-device", "device": GPU}).status == 200
        stream.until(lambda state: not state["cells"][GPU].get("m"), "no taint")
    deleted = {"action": "delete-pod", "namespace": "default", "name": "acted"}
    assert admin.post("actions", deleted).status == 200
    block_until(lambda: admin.get("pod/default/acted").status == 404, "a deleted pod")
    up.delete("resourceclaim", "acted")
    for wrong in (
        {"action": "format-disk"},
        {"action": "cordon"},
        {"action": "cordon", "node": "../pods"},
        {"action": "delete-pod", "namespace": "..", "name": "x"},
        {"action": "taint-device", "device": GPU, "effect": "Sometimes"},
        {"action": "taint-device", "device": "gpu"},
    ):
        assert admin.post("actions", wrong).status == 400, wrong
    assert admin.post("actions", {"action": "cordon", "node": "nobody"}).status == 404
    assert admin.post("actions", {"action": "untaint-device", "device": GPU}).status == 404


def test_files_have_types_and_tags(admin: Browser) -> None:
    index = admin.send("GET", "/ui/", headers={"Accept-Encoding": "gzip"})
    assert index.status == 200
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    if index.headers.get("content-encoding") == "gzip":
        assert b"<html" in gzip.decompress(index.body)
    again = admin.send("GET", "/ui/", headers={"If-None-Match": index.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert admin.send("GET", "/").headers["location"] == "/ui/"
    assert admin.send("GET", "/ui").headers["location"] == "/ui/"
    for path in ("/ui/static/../people.py", "/ui/static/%2e%2e/people.py", "/ui/static/none.js"):
        assert admin.send("GET", path).status == 404, path
    assert admin.send("POST", "/ui/").status == 405
