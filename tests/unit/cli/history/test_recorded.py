"""`dray history` and `dray record` on the data of a running `dray up`, and after its end."""

from __future__ import annotations

import contextlib
import datetime
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.ids import DeviceId
from dray.api.types.meta import JsonObject
from dray.history.facts import Begin, Change, Details, End, Held, Marked, ObjectRef, Progress, Used
from dray.history.history_file import HistoryFile
from tests import etcd, waiting
from tests.unit.cli.components.test_components import POD, TEMPLATE
from tests.unit.cli.components.test_up import up
from tests.unit.cli.conftest import DRAY, START_SECONDS, Cluster, as_list, run

HOUR = datetime.timedelta(hours=1)
NOON = datetime.datetime(2026, 11, 15, 12, 0, tzinfo=datetime.UTC)
ZERO = int(NOON.timestamp() * 1000)


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """An hour of a recorder, an hour without one, and an hour again."""
    path = tmp_path / "story.db"
    device = DeviceId("gpu.example.com", "n1", "gpu-3")
    first, second = (ObjectRef("default", name, name) for name in ("first", "second"))
    pod, group = (ObjectRef("default", name, name) for name in ("train", "podgroups/gang"))
    minute = 60_000
    details = Details(node="n1", user="ann")
    with HistoryFile.open(path) as file:
        file.load()
        begun: list[Change] = [
            Begin(Held(device, first), details, ZERO),
            Begin(Used(first, pod), Details(), ZERO + 1),
            Begin(Marked(device, "tainted", "example.com/hot"), Details(), ZERO + 30 * minute),
        ]
        file.commit(begun, Progress(ZERO, {}, begins_anew=True))
        file.commit([], Progress(ZERO + 60 * minute, {}))
        after: list[Change] = [
            End(Held(device, first), ZERO + 60 * minute, is_about=True),
            End(Used(first, pod), ZERO + 60 * minute, is_about=True),
            Begin(Held(device, second), details, ZERO + 90 * minute),
            Begin(Used(second, group), Details(), ZERO + 90 * minute),
        ]
        file.commit(after, Progress(ZERO + 120 * minute, {}, begins_anew=True))
        file.commit(
            [End(Held(device, second), ZERO + 150 * minute)], Progress(ZERO + 180 * minute, {})
        )
    return path


def test_a_gap_is_shown_between_the_periods(story: Path) -> None:
    found = run("history", "device", "n1/gpu-3", "--file", str(story))
    assert found.exit_code == 0, found.output
    table, marks = found.stdout.split("\n\n")
    lines = [line.split("   ") for line in table.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[:4] == [
        ["SINCE", "UNTIL", "CLAIM", "USER", "USED BY"],
        ["2026-11-15 12:00:00", "after 2026-11-15 13:00:00", "default/first", "ann", "pods/train"],
        ["2026-11-15 13:00:00", "2026-11-15 14:00:00", "<not recorded>"],
        [
            "2026-11-15 13:30:00",
            "2026-11-15 14:30:00",
            "default/second",
            "ann",
            "podgroups/gang",
        ],
    ]
    # Since its end nothing is recorded, up to now.
    assert cells[4][0] == "2026-11-15 15:00:00"
    assert cells[4][2:] == ["<not recorded>"]
    assert marks.splitlines()[1].split() == [
        *("2026-11-15", "12:30:00", "<now>", "tainted", "example.com/hot")
    ]
    assert "Recorded from 2026-11-15 12:00:00 to 2026-11-15 15:00:00." in found.stderr


def test_at_a_time_in_a_gap_only_the_gap_is_certain(story: Path) -> None:
    def at(hour: str) -> JsonObject:
        found = run(
            *("history", "device", "n1/gpu-3", "--file", str(story)),
            *("--at", f"2026-11-15T{hour}:00Z", "-o", "json"),
        )
        assert found.exit_code == 0, found.output
        document: JsonObject = json.loads(found.stdout)
        return document

    assert [each["claim"] for each in at("12:40")["items"]] == ["first"]
    assert at("12:40")["gaps"] == []
    unknown = at("13:10")
    assert unknown["items"] == []
    assert unknown["gaps"] == [
        {"since": "2026-11-15T13:00:00.000Z", "until": "2026-11-15T14:00:00.000Z"}
    ]
    # It holds the device since before the recorder came back.
    assert [each["claim"] for each in at("13:40")["items"]] == ["second"]
    assert at("14:50")["items"] == at("14:50")["gaps"] == []
    early = run(
        "history", "device", "n1/gpu-3", "--file", str(story), "--at", "2026-11-15T11:00:00Z"
    )
    assert early.exit_code == 4
    assert "before the record, which starts at 2026-11-15 12:00:00" in early.stderr


def test_claims_nodes_and_users_have_their_devices(story: Path) -> None:
    for words, claims in (
        (("claim", "first"), ["first"]),
        (("claim", "default/second"), ["second"]),
        (("node", "n1"), ["first", "second"]),
        (("node", "n1", "--since", "2026-11-15T14:00:00Z"), ["second"]),
        (("user", "ann"), ["first", "second"]),
    ):
        if words[0] == "claim":
            words = (*words, "-n", "default")
        found = run("history", *words, "--file", str(story), "-o", "json")
        assert found.exit_code == 0, found.output
        assert [each["claim"] for each in json.loads(found.stdout)["items"]] == claims
    table = run("history", "node", "n1", "--file", str(story)).stdout
    assert table.splitlines()[0].split() == [
        *("SINCE", "UNTIL", "DEVICE", "CLAIM", "USER", "USED", "BY")
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("device", "n1/gpu-9"), 4, "no device n1/gpu-9 is in the record"),
        (("user", "bob"), 4, "no user bob is in the record"),
        (("node", "n1", "--at", "2026-11-15T14:00:00Z", "--since", "2h"), 2, "give one of them"),
        (("node", "n1", "--at", "2999-01-01T00:00:00Z"), 2, "has not come yet"),
        (("node", "n1", "--since", "yesterday"), 2, "write 2h, 14:02 or"),
    ],
)
def test_what_cannot_be_answered_is_said(
    story: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    found = run("history", *words, "--file", str(story))
    assert found.exit_code == code
    assert message in found.stderr


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    found = run("history", "node", "n1", "--file", str(path))
    assert found.exit_code == 1
    assert "is not a history" in found.stderr
    assert path.read_text() == "notes"


def items(cluster: Cluster, *words: str) -> list[JsonObject]:
    found = cluster.dray("history", *words, "-o", "json")
    if found.exit_code:
        return []
    document: JsonObject = json.loads(found.stdout)
    return list(document["items"])


def test_up_records_and_its_history_outlives_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    pod = {**POD, "metadata": {"name": "train", "annotations": {"dray.dev/user": "ann"}}}
    with up(tmp_path):
        assert cluster.dray("create", "-f", "-", input=as_list([TEMPLATE, pod])).exit_code == 0
        (held,) = waiting.block_until(lambda: items(cluster, "user", "ann"), "a period of ann")
        name = held["device"].partition("/")[2]
        assert held["usedBy"] == ["pods/train"]
        now = datetime.datetime.now(datetime.UTC).isoformat()
        assert [each["claim"] for each in items(cluster, "device", name, "--at", now)] == [
            held["claim"]
        ]
        free = json.loads(cluster.dray("get", "devices", "-o", "json").stdout)["items"]
        other = next(each for each in free if not each.get("holders"))
        unused = cluster.dray("history", "device", f"{other['pool']}/{other['name']}")
        assert unused.stdout.endswith("was held by nobody.\n")
    # Killed, and gone: the file is still there.
    (again,) = items(cluster, "device", name)
    assert again == held
    with up(tmp_path):
        assert cluster.dray("delete", "pod", "train").exit_code == 0
        (ended,) = waiting.block_until(
            lambda: [each for each in items(cluster, "claim", held["claim"]) if "until" in each],
            "the end of the claim",
        )
        assert held["since"] == ended["since"] < ended["until"]
        document = json.loads(cluster.dray("history", "device", name, "-o", "json").stdout)
        assert document["gaps"] == []


def test_up_can_be_told_not_to_record(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "kubeconfig")
    with up(tmp_path, "--record", "none"):
        assert not (tmp_path / "history.db").exists()
        found = cluster.dray("history", "node", "gpu-0")
        assert found.exit_code == 1
        assert "dray record --file FILE" in found.stderr


def test_up_refuses_a_record_that_it_cannot_write(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("notes")
    found = subprocess.run(
        [DRAY, "up", "--data", str(tmp_path / "data"), "--record", str(notes)],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert found.returncode == 1
    assert "is not a history" in found.stderr
    assert notes.read_text() == "notes"


@contextlib.contextmanager
def recording(cluster: Cluster, path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [DRAY, "record", "--kubeconfig", str(cluster.kubeconfig), "--file", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"Recording into {path}\n"
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=START_SECONDS)


def test_a_foreign_cluster_is_recorded_over_its_restarts(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "data" / "kubeconfig")
    (tmp_path / "data").mkdir(mode=0o700)
    path = tmp_path / "record.db"
    options = ("--record", "none", "--listen", f"127.0.0.1:{etcd.free_port()}")

    def claims() -> list[str]:
        return [each["claim"] for each in items(cluster, "user", "ann", "--file", str(path))]

    with contextlib.ExitStack() as stack:
        with up(tmp_path / "data", *options):
            stack.enter_context(recording(cluster, path))
            assert cluster.dray("create", "-f", "-", input=as_list([TEMPLATE])).exit_code == 0
            for name in ("one", "two"):
                pod = {**POD, "metadata": {"name": name, "annotations": {"dray.dev/user": "ann"}}}
                assert cluster.dray("create", "-f", "-", input=as_list([pod])).exit_code == 0
                if name == "one":
                    waiting.block_until(lambda: len(claims()) == 1, "the first claim")
            waiting.block_until(lambda: len(claims()) == 2, "the second claim")
        with up(tmp_path / "data", *options):
            assert cluster.dray("delete", "pod", "one").exit_code == 0
            ended = waiting.block_until(
                lambda: [
                    each
                    for each in items(cluster, "user", "ann", "--file", str(path))
                    if "until" in each
                ],
                "the end of the first claim",
                seconds=60,
            )
            assert ended[0]["usedBy"] == ["pods/one"]
            second = subprocess.run(
                [DRAY, "record", "--kubeconfig", str(cluster.kubeconfig), "--file", str(path)],
                capture_output=True,
                text=True,
                timeout=START_SECONDS,
                check=False,
            )
            assert second.returncode == 1
            assert "in use by another recorder" in second.stderr


def test_the_record_of_another_cluster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.db"
    with HistoryFile.open(path) as file:
        file.load()
        file.commit([], Progress(ZERO, {}, begins_anew=True, cluster="another"))
    cluster = Cluster(tmp_path / "kubeconfig")
    with up(tmp_path, "--record", "none"):
        found = subprocess.run(
            [DRAY, "record", "--kubeconfig", str(cluster.kubeconfig), "--file", str(path)],
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
    assert found.returncode == 1
    assert "history of another cluster" in found.stderr
    assert "--file" in found.stderr
