"""Who had a device when, by the old revisions of a running `dray up` that records nothing."""

from __future__ import annotations

import copy
import datetime
import json
from pathlib import Path

import pytest

from dray.api.types.meta import JsonObject
from dray.cli.command_errors import ObjectNotFound
from dray.cli.history import past_revisions as history
from dray.cli.history.past_revisions import ClaimHistory, ClaimRevision
from tests.unit.cli.components.test_components import POD, TEMPLATE
from tests.unit.cli.components.test_up import up
from tests.unit.cli.conftest import Cluster, as_list

DEVICE = "gpu.example.com/n1/gpu-3"


def pod(name: str) -> JsonObject:
    made: JsonObject = copy.deepcopy(POD)
    made["metadata"] = {"name": name}
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-0"}
    return made


def test_a_device_remembers_who_had_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    with up(tmp_path, "--record", "none"):
        assert cluster.dray("create", "-f", "-", input=as_list([TEMPLATE])).exit_code == 0
        for name in ("first", "second"):
            assert cluster.dray("create", "-f", "-", input=as_list([pod(name)])).exit_code == 0
            ready = cluster.dray("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
            assert ready.exit_code == 0, ready.output
            held = cluster.dray("get", "devices", "-o", "json").stdout
            (taken,) = [each for each in json.loads(held)["items"] if each.get("holders")]
            if name == "first":
                deleted = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                assert cluster.dray("delete", "pod", "first").exit_code == 0
                (holder,) = taken["holders"]
                claim_name = f"resourceclaim/{holder['claim']}"
                gone = cluster.dray("wait", claim_name, "--for=delete", "--timeout=60s")
                assert gone.exit_code == 0, gone.output
        label = f"{taken['pool']}/{taken['name']}"
        asked = cluster.dray("history", "device", label, "-o", "json")
        assert asked.exit_code == 0, asked.output
        first, second = json.loads(asked.stdout)["items"]
        assert (first["usedBy"], second["usedBy"]) == (["pods/first"], ["pods/second"])
        assert first["since"] <= first["until"] <= second["since"]
        assert "until" not in second
        # The claim has no time for its release, the end of its pod has one.
        assert deleted <= first["until"]
        assert "untilIsAbout" not in first
        shown = cluster.dray("history", "device", label)
        assert shown.stdout.splitlines()[0].split() == ["SINCE", "UNTIL", "CLAIM", "USED", "BY"]
        assert "History starts with the cluster." in shown.stderr
        before = cluster.dray("history", "device", label, "--at", "1999-01-01T00:00:00Z")
        assert before.stdout == f"{label} was held by nobody at 1999-01-01T00:00:00Z.\n"
        now = datetime.datetime.now(datetime.UTC).isoformat()
        at = cluster.dray("history", "device", label, "--at", now, "-o", "json")
        assert [each["usedBy"] for each in json.loads(at.stdout)["items"]] == [["pods/second"]]
        missing = cluster.dray("history", "device", "nowhere/gpu-0")
        assert missing.exit_code == 4
        assert "dray get devices" in missing.stderr


def test_the_end_of_a_pod_deleted_by_force_is_unknown(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    with up(tmp_path, "--record", "none"):
        made = as_list([TEMPLATE, pod("forced")])
        assert cluster.dray("create", "-f", "-", input=made).exit_code == 0
        ready = cluster.dray("wait", "pod/forced", "--for=condition=Ready", "--timeout=60s")
        assert ready.exit_code == 0, ready.output
        held = json.loads(cluster.dray("get", "devices", "-o", "json").stdout)["items"]
        (taken,) = [each for each in held if each.get("holders")]
        forced = cluster.dray("delete", "pod", "forced", "--force", "--grace-period=0")
        assert forced.exit_code == 0, forced.output
        name = f"resourceclaim/{taken['holders'][0]['claim']}"
        gone = cluster.dray("wait", name, "--for=delete", "--timeout=60s")
        assert gone.exit_code == 0, gone.output
        shown = cluster.dray("history", "device", f"{taken['pool']}/{taken['name']}")
        assert " after " in shown.stdout, shown.output


def claim(uid: str, revision: int, *devices: str, written: str, user: str = "") -> JsonObject:
    results = [
        {"driver": "gpu.example.com", "pool": "n1", "device": device, "request": "r"}
        for device in devices
    ]
    status: JsonObject = {"allocation": {"devices": {"results": results}}} if devices else {}
    if user:
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": user}]
    fields = [{"manager": "m", "time": written}]
    metadata = {"name": uid, "namespace": "ns", "uid": uid, "managedFields": fields}
    return {"metadata": {**metadata, "resourceVersion": str(revision)}, "status": status}


def test_periods_begin_with_an_allocation_and_end_with_its_removal_or_the_claim() -> None:
    held = claim("a", 5, "gpu-3", written="10:00")
    used = claim("a", 7, "gpu-3", written="10:01", user="p")
    freed = claim("a", 9, written="10:05")
    other = claim("b", 11, "gpu-3", "gpu-4", written="10:06")
    past = ClaimHistory(
        5,
        "10:00",
        [held],
        [
            ClaimRevision(7, held, used),
            ClaimRevision(9, used, freed),
            ClaimRevision(11, None, other),
        ],
    )
    found = [period for period in history.periods(past) if period.device == DEVICE]
    assert [(each.claim, each.since, each.until, each.used_by) for each in found] == [
        ("a", "10:00", "10:05", ("pods/p",)),
        ("b", "10:06", "", ()),
    ]
    deleted = ClaimHistory(11, "", [other], [ClaimRevision(12, other, None)])
    ends = {(period.until, period.until_is_about) for period in history.periods(deleted)}
    assert ends == {("10:06", True)}


def test_a_claim_that_let_go_without_a_time_did_so_before_its_next_change() -> None:
    held = claim("a", 5, "gpu-3", written="10:00", user="p")
    freed = claim("a", 9, written="10:00")
    unprotected = claim("a", 11, written="10:05")
    other = claim("b", 10, written="10:03")
    changes = [
        ClaimRevision(9, held, freed),
        ClaimRevision(10, other, other),
        ClaimRevision(11, freed, unprotected),
        ClaimRevision(12, unprotected, claim("a", 12, written="10:07")),
    ]
    (period,) = history.periods(ClaimHistory(5, "10:00", [held], changes))
    assert (period.until, period.until_is_about, period.until_revision) == ("10:05", False, 9)


def test_the_deletion_of_a_claim_ends_what_it_held() -> None:
    held = claim("a", 5, "gpu-3", written="10:00")
    held["metadata"]["deletionTimestamp"] = "10:04"
    (period,) = history.periods(ClaimHistory(5, "10:00", [held], [ClaimRevision(9, held, None)]))
    assert (period.until, period.until_is_about) == ("10:04", False)


def test_a_time_before_what_is_remembered_is_refused() -> None:
    past = ClaimHistory(900, "2026-11-15T10:00:00.000000Z", [], [])
    with pytest.raises(ObjectNotFound, match="before the history of the server"):
        history.require_visible(past, "2026-11-15T09:59:00Z", "09:59")
    history.require_visible(past, "2026-11-15T10:01:00Z", "10:01")
