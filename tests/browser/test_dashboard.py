"""The dashboard of a cluster in a browser: what happens in the cluster is seen on the page."""

from __future__ import annotations

import datetime
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from kubernetes import client
from playwright.sync_api import Browser, Page, StorageState, expect

from dray.history.queries import DeviceHistory
from tests import rounds, waiting
from tests.browser import looks
from tests.browser.conftest import OpenPage
from tests.browser.payloads import PAYLOADS
from tests.browser.running import RunningDray, pod, running, template

pytestmark = [pytest.mark.xdist_group("dashboard"), pytest.mark.slow]

expect.set_options(timeout=looks.DEADLINE)

GPU = "gpu.nvidia.com"
SLICED = f"{GPU}/mig-0/gpu-0"
WHOLE = [f"{GPU}/{node}/gpu-{index}" for node in ("gpu-0", "gpu-1") for index in (0, 1)]
HOPPER = f'device.attributes["{GPU}"].architecture == "Hopper"'
NEVER = f'device.capacity["{GPU}"].memory.compareTo(quantity("500Gi")) >= 0'
MEDIUM = "#/devices?size=medium"
TRIES = 5
MOST_SECONDS = 1.0

Looking = Callable[[str], Page]
Core = Any
"""The official client of the core API: it takes documents where its types say objects."""


@pytest.fixture(scope="module")
def dray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDray]:
    with running(tmp_path_factory.mktemp("dashboard") / "data") as found:
        found.apply(
            template("gpu", HOPPER),
            template("never", NEVER),
            template("any"),
            template(
                "half",
                f'device.attributes["{GPU}"].profile == "3g.40gb"',
                device_class="mig.nvidia.com",
            ),
        )
        yield found


@pytest.fixture(scope="module")
def signed_in(browser: Browser, dray: RunningDray) -> StorageState:
    """The cookie of a session that a link began."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(dray.link)
    looks.wait_for_map(page)
    assert "key=" not in page.url
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def look(open_page: OpenPage, dray: RunningDray, signed_in: StorageState) -> Looking:
    return lambda view: open_page(dray.address + view, storage_state=signed_in)


@pytest.fixture
def core(dray: RunningDray) -> Iterator[Core]:
    """Pods that the test creates are gone after it."""
    with dray.api() as found:
        api = client.CoreV1Api(found)
        yield api
        api.delete_collection_namespaced_pod("default", grace_period_seconds=0)
        claims = client.ResourceV1Api(found)
        waiting.block_until(
            lambda: not claims.list_namespaced_resource_claim("default").items, "no claims"
        )


def test_a_claim_that_is_applied_changes_its_cell_within_a_second(
    look: Looking, core: Core
) -> None:
    page = look(MEDIUM)
    for key in WHOLE:
        looks.wait_for_color(page, key, looks.FREE)
    quickest = MOST_SECONDS
    for number in range(TRIES):
        name = f"quick-{number}"
        start = time.monotonic()
        core.create_namespaced_pod("default", pod(name, "gpu"))
        page.wait_for_function(
            "() => document.querySelector('.chip[data-state=\"in use\"] strong')"
            ".textContent === '1'"
        )
        waiting.block_until(lambda: looks.HELD in _colors(page))
        quickest = min(quickest, time.monotonic() - start)
        core.delete_namespaced_pod(name, "default", grace_period_seconds=0)
        waiting.block_until(lambda: _colors(page) == {looks.FREE})
    assert quickest < MOST_SECONDS


def _colors(page: Page) -> set[str]:
    """In which of the colours the GPUs are drawn."""
    held, free = looks.color(page, looks.HELD), looks.color(page, looks.FREE)
    drawn = [looks.pixel(page, key) for key in WHOLE]
    return {
        name
        for name, color in ((looks.HELD, held), (looks.FREE, free), ("", None))
        if any(pixel == color or (color is None and pixel not in (held, free)) for pixel in drawn)
    }


def test_halves_of_a_gpu_are_drawn_at_their_places(
    look: Looking, core: Core, dray: RunningDray
) -> None:
    page = look(MEDIUM)
    core.create_namespaced_pod("default", pod("left", "half"))
    slots = [(slot + 0.5) / 8 for slot in range(8)]
    looks.wait_for_color(page, SLICED, looks.HELD, slots[0], 0.85)
    with dray.api() as api:
        claims: Any = client.ResourceV1Api(api)
        (claim,) = claims.list_namespaced_resource_claim("default").items
    (result,) = claim.status.allocation.devices.results
    first = int(result.device.rpartition("-")[2])
    for slot, place in enumerate(slots):
        expected = looks.HELD if first <= slot < first + 4 else looks.HOLE
        looks.wait_for_color(page, SLICED, expected, place, 0.85)
    core.create_namespaced_pod("default", pod("right", "half"))
    for place in slots:
        looks.wait_for_color(page, SLICED, looks.HELD, place, 0.85)
    page.mouse.move(*_middle(page, SLICED))
    expect(page.locator(".hover-card")).to_contain_text("default/left")
    expect(page.locator(".hover-card")).to_contain_text("default/right")


def _middle(page: Page, key: str) -> tuple[float, float]:
    rect = looks.box(page, key)
    return rect["x"] + rect["width"] / 2, rect["y"] + rect["height"] / 2


def test_a_waiting_pod_has_the_reason_that_explain_prints(
    look: Looking, core: Core, dray: RunningDray
) -> None:
    core.create_namespaced_pod("default", pod("dream", "never"))
    page = look("#/waiting")
    page.get_by_role("link", name="dream").click()
    expect(page.locator(".verdict")).to_be_visible()
    printed = dray.run("explain", "pod/dream", "--namespace", "default", exit_code=1)
    reason, fix = printed.split("\n")[:2]
    expect(page.locator(".verdict")).to_have_text(reason.replace("`", ""))
    short = reason.replace("`", "").partition(" waits: ")[2]
    expect(page.locator(".waiting-reason")).to_have_text(short)
    assert re.sub(r"^\s*fix: ", "", fix).replace("`", "") in page.locator(".fix p").inner_text()
    assert looks.texts(page.locator(".funnel-count"))[-1] == "0"
    core.delete_namespaced_pod("dream", "default", grace_period_seconds=0)
    expect(page.locator(".summary")).to_have_text("Nothing waits.")


def test_the_slider_shows_who_held_what_at_any_moment(
    look: Looking, core: Core, dray: RunningDray
) -> None:
    dice = random.Random(rounds.seed_of(0))
    start = datetime.datetime.now(datetime.UTC)
    for number in range(6):
        names = [f"job-{number}-{index}" for index in range(dice.randint(1, 4))]
        for name in names:
            core.create_namespaced_pod("default", pod(name, dice.choice(("gpu", "half"))))
        page = look("#/devices?view=table")
        expect(page.locator("tbody")).to_contain_text(names[0])
        for name in names:
            core.delete_namespaced_pod(name, "default", grace_period_seconds=0)
    end = datetime.datetime.now(datetime.UTC)
    with DeviceHistory(dray.data / "history.db") as history:
        waiting.block_until(lambda: (history.span().last or start) > end)
        page = look("#/history?view=table&range=15m")
        for _ in range(rounds.count(25, long=200)):
            moment = start + (end - start) * dice.random()
            moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
            text = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
            page.evaluate(
                "(at) => { location.hash = `#/history?view=table&range=15m&at=${at}`; }",
                quote(text),
            )
            page.wait_for_selector(f".as-table[data-time^='{text[:-1]}']")
            expected = {
                (device.device, holder.claim)
                for device, holders in history.at(moment).holders.items()
                for holder in holders
            }
            assert _holders(page) == expected


def _holders(page: Page) -> set[tuple[str, str]]:
    """Devices and partitions with the claims that the table names."""
    rows = page.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [row.querySelector('a').getAttribute('href'),"
        " row.cells[5].textContent, row.querySelector('.indented') !== null])"
    )
    parts = {href.rpartition("%2F")[2].partition("-mig")[0] for href, _, is_part in rows if is_part}
    found = set()
    for href, claims, is_part in rows:
        device = href.rpartition("%2F")[2]
        # A device with partitions repeats their claims.
        if claims and (is_part or not (href.endswith("mig-0%2Fgpu-0") and parts)):
            found |= {(device, claim) for claim in claims.split(", ")}
    return found


def test_devices_are_filtered_by_cel(look: Looking) -> None:
    page = look("#/devices?view=table")
    field = page.get_by_label("Filter (CEL)")
    field.fill(HOPPER)
    expect(page.locator(".summary")).to_contain_text("4 match")
    expect(page.locator("tbody tr")).to_have_count(4)
    field.fill('device.driverr == "x"')
    expect(page.locator("#filter-problem")).to_contain_text("undefined field 'driverr'")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator(".summary")).to_contain_text("0 match")


def test_a_gpu_that_fails_is_seen(look: Looking, dray: RunningDray) -> None:
    page = look(MEDIUM)
    chip = page.locator(".chip[data-state='unhealthy'] strong")
    expect(chip).to_have_text("0")
    dray.run("fleet", "fail", "gpu-1", "gpu-1")
    try:
        expect(chip).to_have_text("1")
        page.mouse.move(*_middle(page, f"{GPU}/gpu-1/gpu-1"))
        expect(page.locator(".hover-card")).to_contain_text("unhealthy")
    finally:
        dray.run("fleet", "heal", "gpu-1", "gpu-1")
    expect(chip).to_have_text("0")


def test_a_user_without_rights_sees_less_and_can_do_nothing(
    open_page: OpenPage, dray: RunningDray, core: Core
) -> None:
    core.create_namespaced_pod("default", pod("secret", "gpu"))
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "viewer", "namespace": "default"},
    }
    devices = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "sees-devices"},
        "rules": [
            {
                "apiGroups": ["resource.k8s.io"],
                "resources": ["resourceslices", "deviceclasses"],
                "verbs": ["get", "list", "watch"],
            },
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "sees-devices"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "sees-devices",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    }
    dray.apply(account, devices, binding)
    token = core.create_namespaced_service_account_token(
        "viewer", "default", {"spec": {}}
    ).status.token
    page = open_page(dray.address + MEDIUM)
    page.get_by_label("Token, or the link").fill(token)
    page.get_by_role("button", name="Sign in").click()
    looks.wait_for_map(page)
    expect(page.locator(".user")).to_have_text("system:serviceaccount:default:viewer")
    expect(page.locator(".notice")).to_contain_text("pods")
    expect(page.locator(".summary")).to_contain_text("5 devices")
    assert "secret" not in page.content()
    page.evaluate("location.hash = '#/pod/default/secret'")
    expect(page.get_by_role("alert")).to_be_visible()
    for view in ("#/node/gpu-0", f"#/device/{quote(WHOLE[0], safe='')}"):
        page.evaluate("(view) => { location.hash = view; }", view)
        page.wait_for_selector(".facts")
        expect(page.locator(".actions button")).to_have_count(0)


def test_an_action_is_done_after_it_was_confirmed(look: Looking, core: Core) -> None:
    core.create_namespaced_pod("default", pod("unwanted", "gpu"))
    page = look("#/pod/default/unwanted")
    page.get_by_role("button", name="Delete pod…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    waiting.block_until(lambda: not core.list_namespaced_pod("default").items)
    page = look("#/node/gpu-1")
    page.get_by_role("button", name="Cordon…", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cordon", exact=True).click()
    page.get_by_role("button", name="Uncordon…").click()
    page.get_by_role("dialog").get_by_role("button", name="Uncordon", exact=True).click()
    expect(page.get_by_role("button", name="Cordon…", exact=True)).to_be_visible()
    page = look(f"#/device/{quote(WHOLE[3], safe='')}")
    page.get_by_role("button", name="Taint…", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Taint", exact=True).click()
    page.get_by_role("button", name="Remove taint…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("button", name="Remove taint…")).to_be_hidden()


def test_markup_in_objects_stays_text(look: Looking, core: Core, dray: RunningDray) -> None:
    texts = [payload.replace("\u0000", "") for payload in PAYLOADS]
    annotations = {f"payload-{number}": text for number, text in enumerate(texts)}
    selectors = [f"device.driver == {text[:60]!r}" for text in texts]
    dray.apply(
        template("hostile", " || ".join(selectors[:20])),
        pod("hostile", "hostile", annotations=annotations),
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "hostile"},
            "spec": {
                "driver": "hostile.example.com",
                "pool": {"name": "hostile", "generation": 1, "resourceSliceCount": 1},
                "allNodes": True,
                "devices": [
                    {
                        "name": f"d-{number}",
                        "attributes": {
                            name: {"string": text[:64]} for name in ("productName", "model")
                        },
                    }
                    for number, text in enumerate(texts)
                ],
            },
        },
    )
    try:
        for number, text in enumerate(texts):
            core.create_namespaced_event(
                "default",
                {
                    "metadata": {"name": f"hostile-{number}"},
                    "message": text,
                    "reason": text,
                    "type": "Normal",
                    "involvedObject": {"kind": "Pod", "name": "hostile", "namespace": "default"},
                },
            )
        for view, ready in (
            ("#/pod/default/hostile", ".yaml"),
            ("#/waiting/pod/default/hostile", ".verdict"),
            ("#/devices?group=model&view=table", "tbody tr"),
            ("#/devices", "device-map h2, .map-grid a"),
            ("#/device/" + quote("hostile.example.com/hostile/d-1", safe=""), ".facts"),
            ("#/health", ".components"),
            (f"#/devices?filter={quote(texts[0])}", "#filter-problem [role=alert]"),
        ):
            page = look(view)
            page.wait_for_selector(ready, state="attached")
            looks.open_details(page)
            shown = page.locator("body").evaluate("(body) => body.textContent")
            assert page.evaluate("window.injected") is None
            assert page.locator("iframe, img, object, embed, style, x-y, [onerror]").count() == 0
            if "view=table" in view:
                assert [text for text in texts if text[:64] not in shown] == []
            if view == "#/pod/default/hostile":
                assert [text for text in texts if text not in shown] == []
    finally:
        dray.run("delete", "resourceslice", "hostile")


def test_the_server_is_killed_and_started_again(open_page: OpenPage, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as first:
        port = first.address.rpartition(":")[2].partition("/")[0]
        page = open_page(first.link)
        looks.wait_for_map(page)
        first.apply(template("gpu", HOPPER), pod("stays", "gpu"))
        expect(page.locator(".chip[data-state='in use'] strong")).to_have_text("1")
        first.process.kill()
        expect(page.locator(".banner")).to_contain_text("connection to the server is lost")
        first.process.wait(30)
        with running(data, "--ui-listen", f"127.0.0.1:{port}") as second:
            # Sessions end with the server: nobody keeps rights that the new one did not give.
            expect(page.locator(".login")).to_be_visible()
            page.get_by_label("Token, or the link").fill(second.link)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator(".chip[data-state='in use'] strong")).to_have_text("1")
