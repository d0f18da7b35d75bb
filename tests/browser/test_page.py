"""The page in a browser, with a server that answers from documents: what it shows and does."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import fleets, looks
from tests.browser.conftest import OpenPage
from tests.browser.fake_server import KEY, FakeDashboard, object_page, serving
from tests.browser.fleets import GPU
from tests.browser.payloads import PAYLOADS
from tests.waiting import block_until

pytestmark = [pytest.mark.xdist_group("page"), pytest.mark.slow]

expect.set_options(timeout=looks.DEADLINE)

HELD_GPU, FREE_GPU = f"{GPU}/h100-0/gpu-0", f"{GPU}/h100-0/gpu-2"
SLICED_GPU = f"{GPU}/a100-0/gpu-1"
MEDIUM = "#/devices?size=medium"
VIEWS = {
    "devices": "#/devices",
    "devices grouped": "#/devices?group=class&size=small",
    "devices as a table": "#/devices?view=table",
    "waiting": "#/waiting",
    "explanation": "#/waiting/pod/ml/dream",
    "claim": "#/claim/ml/train-gpu",
    "pod": "#/pod/ml/train",
    "waiting pod": "#/pod/ml/dream",
    "node": "#/node/a100-0",
    "device": f"#/device/{quote(SLICED_GPU, safe='')}",
    "history": f"#/history?device={quote(SLICED_GPU, safe='')}&range=1d",
    "capacity": "#/capacity",
    "health": "#/health",
    "nowhere": "#/nowhere",
}
ENDS = {
    "devices": "device-map .map-grid a",
    "devices grouped": "device-map h2",
    "devices as a table": "tbody tr",
    "waiting": ".waiting-list a",
    "explanation": ".funnel",
    "claim": ".yaml",
    "pod": ".yaml",
    "waiting pod": ".funnel",
    "node": ".yaml",
    "device": ".gantt-chart",
    "history": ".gantt-chart",
    "capacity": ".usage-chart",
    "health": ".components",
    "nowhere": "h1",
}
"""What is there when a view is complete."""


def complete(page: Page, view: str) -> None:
    page.wait_for_selector(ENDS[view], state="attached")


def test_a_change_is_drawn(open_page: OpenPage, address: str, dashboard: FakeDashboard) -> None:
    page = open_page(address + MEDIUM)
    looks.wait_for_color(page, FREE_GPU, looks.FREE)
    looks.wait_for_color(page, HELD_GPU, looks.HELD)
    cell = fleets.hold(dict(dashboard.state["cells"][FREE_GPU]), "ml/new-gpu", "ml/new")
    dashboard.change(cells={FREE_GPU: cell})
    looks.wait_for_color(page, FREE_GPU, looks.HELD)
    expect(page.locator(".chip[data-state='in use'] strong")).to_have_text("6")
    expect(page.locator("#announcements")).to_contain_text("gpu-2 on h100-0 is in use")


def test_devices_that_come_and_go_are_drawn(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + MEDIUM)
    looks.wait_for_map(page)
    new = f"{GPU}/h100-0/gpu-9"
    dashboard.change(cells={new: {"n": "h100-0", "s": "h100", "st": "free"}, HELD_GPU: None})
    looks.wait_for_color(page, new, looks.FREE)
    assert looks.pixel(page, HELD_GPU) is None
    dashboard.change(nodes={"h100-0": None}, cells={new: None})
    page.wait_for_function(
        "(key) => document.querySelector('device-map').rectOf(key) === null", arg=new
    )


def test_partitions_are_drawn_at_their_places_and_holes_stay_open(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + MEDIUM)
    looks.wait_for_map(page)
    taken = {
        slot
        for part in dashboard.state["cells"][SLICED_GPU]["p"]
        for slot in range(part["o"], part["o"] + part["w"])
    }
    assert taken == {0, 4, 5, 6}
    for slot in range(8):
        expected = looks.HELD if slot in taken else looks.HOLE
        looks.wait_for_color(page, SLICED_GPU, expected, (slot + 0.5) / 8, 0.85)


def test_a_lost_connection_is_said_and_caught_up(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + MEDIUM)
    looks.wait_for_color(page, FREE_GPU, looks.FREE)
    dashboard.disconnect()
    expect(page.locator(".banner")).to_contain_text("connection to the server is lost")
    expect(page.locator(".live")).to_have_text("Disconnected")
    cell = fleets.hold(dict(dashboard.state["cells"][FREE_GPU]), "ml/new-gpu", "ml/new")
    dashboard.change(cells={FREE_GPU: cell})
    dashboard.is_down = False
    expect(page.locator(".banner")).to_be_hidden()
    expect(page.locator(".live")).to_have_text("Live")
    looks.wait_for_color(page, FREE_GPU, looks.HELD)


def test_an_api_server_that_is_lost_is_said(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + MEDIUM)
    expect(page.locator(".live")).to_have_text("Live")
    dashboard.change(outage={"since": "2026-11-19T14:02:00Z", "reason": "cannot reach <b>it</b>"})
    expect(page.locator(".banner")).to_contain_text("cannot reach <b>it</b>")
    expect(page.locator(".live")).to_have_text("Disconnected")
    dashboard.disconnect()
    expect(page.locator(".banner")).to_contain_text("connection to the server is lost")
    dashboard.is_down = False
    expect(page.locator(".banner")).to_contain_text("The API server cannot be followed since")
    dashboard.change(outage=None)
    expect(page.locator(".banner")).to_be_hidden()
    expect(page.locator(".live")).to_have_text("Live")


def test_a_filter_dims_or_hides_the_others(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    dashboard.matches = {"cells": [HELD_GPU], "parts": [f"{GPU}/a100-0/gpu-1-mig-1g.10gb-0"]}
    page = open_page(address + MEDIUM)
    page.get_by_label("Filter (CEL)").fill('device.driver == "x"')
    expect(page.locator(".summary")).to_contain_text("2 match")
    looks.wait_for_color(page, HELD_GPU, looks.HELD)
    assert looks.pixel(page, f"{GPU}/h100-0/gpu-1") != looks.color(page, looks.HELD)
    page.get_by_label("Only matches").check()
    page.wait_for_function(
        "(key) => document.querySelector('device-map').rectOf(key) === null", arg=FREE_GPU
    )
    assert looks.pixel(page, SLICED_GPU) is not None
    assert "filter=" in page.url
    assert "only=1" in page.url


def test_a_wrong_filter_says_where_and_what_to_write(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    right = 'device.driver == "gpu.nvidia.com"'
    dashboard.filter_error = {
        "message": "compilation failed: undeclared reference to 'devise'",
        "line": 1,
        "column": 3,
        "suggestion": right,
    }
    page = open_page(address + "#/devices?filter=" + quote('devise.driver == "x"'))
    problem = page.locator("#filter-problem")
    expect(problem).to_contain_text("undeclared reference")
    lines = problem.locator("pre").inner_text().split("\n")
    assert lines == ['devise.driver == "x"', "  ^"]
    expect(page.get_by_label("Filter (CEL)")).to_have_attribute("aria-invalid", "true")
    dashboard.filter_error = None
    problem.get_by_role("button").click()
    expect(problem).to_be_hidden()
    expect(page.get_by_label("Filter (CEL)")).to_have_value(right)


def test_devices_are_found_by_who_holds_them(open_page: OpenPage, address: str) -> None:
    page = open_page(address + "#/devices?view=table")
    page.get_by_label("Held by claim or pod").fill("NOTEBOOK-2")
    expect(page.locator(".summary")).to_contain_text("1 match")
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.locator("tbody")).to_contain_text("slots 4–5")


def test_states_filter_and_are_kept_in_the_address(open_page: OpenPage, address: str) -> None:
    page = open_page(address + "#/devices?view=table")
    page.get_by_role("button", name="1 blocked").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="2 tainted").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    again = open_page(page.url)
    expect(again.locator("tbody tr")).to_have_count(3)
    expect(again.get_by_role("button", name="1 blocked")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize(
    ("by", "titles"),
    [
        ("class", ["gpu.nvidia.com", "gpu.nvidia.com, mig.nvidia.com", "nic.example.com"]),
        ("label:example.com/rack", ["r1", "r2", "r3", "(none)"]),
        ("attr:architecture", ["Ada", "Ampere", "Hopper", "(none)"]),
        ("model", ["ConnectX-7", "NVIDIA A100", "NVIDIA H100", "NVIDIA L40S"]),
    ],
)
def test_devices_are_grouped(open_page: OpenPage, address: str, by: str, titles: list[str]) -> None:
    page = open_page(f"{address}#/devices?group={quote(by)}")
    headings = page.locator("device-map h2")
    expect(headings).to_have_count(len(titles))
    shown = [heading.evaluate("(it) => it.firstChild.textContent") for heading in headings.all()]
    assert shown == titles
    expect(page.get_by_label("Group by")).to_have_value(by)


def test_the_table_has_what_the_map_has(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + "#/devices?view=table")
    cells = dashboard.state["cells"]
    rows = len(cells) + sum(len(cell.get("p", ())) for cell in cells.values())
    expect(page.locator("tbody tr")).to_have_count(rows)
    line = page.locator("tbody tr", has_text="ml/whole-gpu")
    assert looks.texts(line.locator("td")) == [
        "gpu-2",
        "a100-0",
        "NVIDIA A100",
        "in use",
        "",
        "ml/whole-gpu",
        "ml/whole",
    ]


def test_a_view_without_rights_has_less_and_no_actions(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    dashboard.state["unreadable"] = ["pods: you may not list them"]
    for key in [key for key in dashboard.state["cells"] if "a100" in key]:
        del dashboard.state["cells"][key]
    for rights in (
        {"canAct": False},
        {"canAct": True, "rights": {"deletePods": ["web"], "cordon": False, "taintDevices": False}},
    ):
        dashboard.session |= rights
        for view in ("pod", "node", "device"):
            page = open_page(address + VIEWS[view])
            page.wait_for_selector(".yaml")
            expect(page.locator(".actions button")).to_have_count(0)
    page = open_page(address)
    expect(page.locator(".notice")).to_contain_text("pods: you may not list them")
    expect(page.locator(".summary")).to_contain_text("19 devices")


ACTIONS: list[tuple[str, str, str, dict[str, str]]] = [
    (
        "#/pod/ml/train",
        "Delete pod",
        "Delete",
        {"action": "delete-pod", "namespace": "ml", "name": "train"},
    ),
    ("#/node/h100-0", "Cordon", "Cordon", {"action": "cordon", "node": "h100-0"}),
    ("#/node/h100-1", "Uncordon", "Uncordon", {"action": "uncordon", "node": "h100-1"}),
    (
        f"#/device/{quote(FREE_GPU, safe='')}",
        "Taint",
        "Taint",
        {
            "action": "taint-device",
            "device": FREE_GPU,
            "key": "dray.dev/maintenance",
            "effect": "NoSchedule",
        },
    ),
    (
        f"#/device/{quote(f'{GPU}/h100-0/gpu-3', safe='')}",
        "Remove taint",
        "Remove",
        {"action": "untaint-device", "device": f"{GPU}/h100-0/gpu-3"},
    ),
]


@pytest.mark.parametrize(
    ("view", "button", "confirm", "sent"), ACTIONS, ids=lambda it: str(it)[:20]
)
def test_an_action_asks_first(
    open_page: OpenPage,
    address: str,
    dashboard: FakeDashboard,
    view: str,
    button: str,
    confirm: str,
    sent: dict[str, str],
) -> None:
    page = open_page(address + view)
    page.get_by_role("button", name=f"{button}…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name=f"{button}…").click()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert dashboard.actions == []
    page.get_by_role("button", name=f"{button}…").click()
    dialog.get_by_role("button", name=confirm, exact=True).click()
    expect(dialog).to_have_count(0)
    assert dashboard.actions == [sent]


@pytest.fixture(scope="module")
def hostile() -> Iterator[tuple[str, str]]:
    """A server whose documents have payloads wherever a text of somebody else may be, and these."""
    dashboard = FakeDashboard(fleets.mixed())
    state = dashboard.state
    text = "".join(PAYLOADS)
    for number, payload in enumerate(PAYLOADS):
        safe = payload.replace("/", "∕")
        node, key = f"{safe}{number}", f"{GPU}/{number}/{safe}"
        state["nodes"][node] = {
            "ready": True,
            "cordoned": False,
            "labels": {safe: payload, "rack": payload},
            "simulated": True,
        }
        state["shapes"][payload] = {
            "driver": payload,
            "model": payload,
            "memory": payload,
            "slots": 8,
            "classes": [payload],
            "attributes": {safe: payload},
        }
        state["cells"][key] = {
            "n": node,
            "s": payload,
            "st": "in use",
            "t": payload,
            "h": [f"{safe}/{safe}"],
            "u": [f"{safe}/{safe}"],
            "p": [fleets.part(f"{key}-{safe}", 0, 4, f"{safe}/{safe}", f"{safe}/{safe}")],
        }
        waiting = {
            "since": fleets.START,
            "kind": "Pod",
            "ns": safe,
            "name": safe,
            "reason": payload,
            "short": payload,
            "fix": payload,
        }
        state["waiting"][f"pod/{safe}/{safe}"] = waiting
    state["unreadable"] = list(PAYLOADS)
    page = object_page("Pod", text)
    page["facts"] = [
        {"label": payload, "value": payload, "link": {"kind": "device", "key": payload}}
        for payload in PAYLOADS
    ]
    page["chain"] = [
        {
            "step": payload,
            "text": payload,
            "state": payload,
            "link": {"kind": "node", "name": payload},
        }
        for payload in PAYLOADS
    ]
    page["events"] = [
        {"time": payload, "type": payload, "reason": payload, "message": payload, "count": 1}
        for payload in PAYLOADS
    ]
    page["yaml"] = text
    dashboard.pages = {
        "pod/ml/train": page,
        f"device/{SLICED_GPU}": page,
        "node/a100-0": page,
        "claim/ml/train-gpu": page,
    }
    dashboard.explanation = {
        "headline": text,
        "text": text,
        "funnel": [{"label": payload, "left": 1, "of": 2} for payload in PAYLOADS],
        "checks": [{"text": payload, "passed": False} for payload in PAYLOADS],
        "fix": {"text": text, "command": text},
    }
    dashboard.capacity = {
        "classes": [
            {
                "class": payload,
                "total": 2,
                "held": 1,
                "free": 1,
                "stranded": 0,
                "largest": payload,
                "fits": 1,
                "limit": payload,
            }
            for payload in PAYLOADS
        ]
    }
    dashboard.health = {
        "components": [{"name": payload, "ok": False, "text": payload} for payload in PAYLOADS],
        "findings": [
            {"severity": payload, "text": payload, "fix": payload, "command": payload}
            for payload in PAYLOADS
        ],
        "versions": {payload: payload for payload in PAYLOADS},
    }
    dashboard.session |= {"user": text, "cluster": {"name": text, "version": text}}
    dashboard.filter_error = {
        "message": text,
        "advice": text,
        "line": 1,
        "column": 2,
        "suggestion": text,
    }
    with serving(dashboard) as address:
        yield address, text


OUTSIDERS = ", ".join(
    (
        "iframe, img, object, embed, base, video, math, template, style, x-y, meta[http-equiv]",
        "link:not([rel=icon]):not([rel=stylesheet]), script:not([src^='static/'])",
        "[onclick], [onload], [onerror], [onfocus], [onmouseover], [ontoggle]",
    )
)


@pytest.mark.parametrize("view", VIEWS)
def test_markup_stays_text(open_page: OpenPage, hostile: tuple[str, str], view: str) -> None:
    address, text = hostile
    where = VIEWS[view] + ("&filter=" + quote(text) if view == "devices grouped" else "")
    page = open_page(address + where)
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    complete(page, view)
    looks.open_details(page)
    shown = page.locator("body").evaluate("(body) => body.textContent")
    for payload in PAYLOADS:
        if view not in ("nowhere", "devices"):
            assert payload in shown or payload.replace("/", "∕") in shown
    assert page.evaluate("window.injected") is None
    assert page.locator(OUTSIDERS).count() == 0
    hrefs = page.locator("a").evaluate_all("(all) => all.map((it) => it.getAttribute('href'))")
    assert all(href.startswith("#") for href in hrefs)


def test_an_exported_map_with_markup_is_still_a_picture(
    open_page: OpenPage, hostile: tuple[str, str], tmp_path: Path
) -> None:
    from xml.etree import ElementTree

    page = open_page(hostile[0])
    looks.wait_for_map(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the map as SVG").click()
    download.value.save_as(tmp_path / "map.svg")
    names = {
        element.tag.rpartition("}")[2] for element in ElementTree.parse(tmp_path / "map.svg").iter()
    }
    assert names <= {"svg", "g", "title", "rect", "path", "polygon", "circle", "text"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_accessible(open_page: OpenPage, address: str, view: str, scheme: str) -> None:
    page = open_page(address + VIEWS[view], color_scheme=scheme)
    complete(page, view)
    looks.open_details(page)
    found = Axe().run(page).response["violations"]
    grave = {
        each["id"]: [node["html"][:200] for node in each["nodes"]]
        for each in found
        if each["impact"] in ("serious", "critical")
    }
    assert grave == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_login_and_dialogs_are_accessible(
    open_page: OpenPage, address: str, dashboard: FakeDashboard, scheme: str
) -> None:
    page = open_page(address + "#/pod/ml/train", color_scheme=scheme)
    page.get_by_role("button", name="Delete pod…").click()
    assert _grave(page) == []
    dashboard.is_signed_in = False
    page = open_page(address, color_scheme=scheme)
    page.wait_for_selector(".login")
    assert _grave(page) == []


def _grave(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [each["id"] for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("view", VIEWS)
def test_readable_on_a_narrow_screen(open_page: OpenPage, address: str, view: str) -> None:
    page = open_page(address + VIEWS[view], width=360, height=740)
    complete(page, view)
    assert looks.width_beyond(page) <= 0


def _tab_to(page: Page, text: str) -> None:
    """Press Tab until something with that text has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if text in page.evaluate("document.activeElement.textContent"):
            return
    pytest.fail(f"the keyboard does not reach {text!r}")


def test_keyboard_alone_goes_from_a_claim_to_its_device_and_pod_and_back(
    open_page: OpenPage, address: str
) -> None:
    page = open_page(address + "#/claim/ml/train-gpu")
    title = page.locator("h1")
    page.wait_for_selector(".chain")
    _tab_to(page, "gpu-0")
    page.keyboard.press("Enter")
    expect(title).to_contain_text("Device")
    looks.wait_for_focus(page, "Device")
    page.wait_for_selector(".chain")
    _tab_to(page, "main")
    page.keyboard.press("Enter")
    expect(title).to_contain_text("Pod")
    page.wait_for_selector(".chain")
    _tab_to(page, "ml/train-gpu")
    page.keyboard.press("Enter")
    expect(title).to_contain_text("ResourceClaim")
    assert page.url.endswith("#/claim/ml/train-gpu")
    page.go_back()
    expect(title).to_contain_text("Pod")


def test_keyboard_alone_moves_over_the_map(open_page: OpenPage, address: str) -> None:
    page = open_page(address + MEDIUM)
    looks.wait_for_map(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    _tab_to(page, "gpu-0, NVIDIA A100")
    page.keyboard.press("ArrowRight")
    looks.wait_for_focus(page, "gpu-1, NVIDIA A100")
    expect(page.locator(".hover-card")).to_contain_text("mig-2g.20gb-4")
    page.keyboard.press("ArrowDown")
    looks.wait_for_focus(page, "gpu-3, NVIDIA A100")
    page.keyboard.press("Control+End")
    looks.wait_for_focus(page, "gpu-0, NVIDIA H100")
    page.keyboard.press("Control+Home")
    page.keyboard.press("End")
    looks.wait_for_focus(page, "gpu-3, NVIDIA A100")
    assert page.locator(".map-grid a[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Device")


def test_the_pointer_opens_devices_and_nodes(open_page: OpenPage, address: str) -> None:
    page = open_page(address + MEDIUM)
    looks.wait_for_map(page)
    rect = looks.box(page, SLICED_GPU)
    page.mouse.move(rect["x"] + 5, rect["y"] + 5)
    expect(page.locator(".hover-card")).to_contain_text("gpu-1 on a100-0")
    expect(page.locator(".hover-card")).to_contain_text("shared, 50 % used")
    page.mouse.click(rect["x"] + 5, rect["y"] + 5)
    expect(page.locator("h1")).to_contain_text("gpu-1")
    page.go_back()
    looks.wait_for_map(page)
    rect = looks.box(page, HELD_GPU)
    page.mouse.move(rect["x"] + 3, rect["y"] - 14)
    page.mouse.click(rect["x"] + 3, rect["y"] - 14)
    expect(page.locator("h1")).to_contain_text("h100-0")


def test_touch_opens_a_device(open_page: OpenPage, address: str) -> None:
    page = open_page(address + MEDIUM, width=390, has_touch=True)
    looks.wait_for_map(page)
    rect = looks.box(page, SLICED_GPU)
    page.touchscreen.tap(rect["x"] + 5, rect["y"] + 5)
    expect(page.locator("h1")).to_contain_text("gpu-1")


def test_a_waiting_pod_has_its_reason_and_its_funnel(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + "#/waiting")
    expect(page.locator(".waiting-list li")).to_have_count(3)
    page.get_by_role("link", name="dream").click()
    expect(page.locator(".verdict")).to_have_text(
        dashboard.explanation["headline"].replace("`", "")
    )
    assert looks.texts(page.locator(".funnel-count")) == ["21", "13", "9", "0"]
    bars = page.locator(".funnel-bar .left").evaluate_all(
        "(all) => all.map((it) => Number(it.getAttribute('width')))"
    )
    assert [round(width) for width in bars] == [100, 62, 43, 0]
    expect(page.locator(".checks .failed")).to_contain_text("devices")
    page.get_by_text("Show as table").click()
    expect(page.locator("figure tbody tr")).to_have_count(4)
    dashboard.change(waiting={"pod/ml/dream": None})
    expect(page.locator(".waiting-list li")).to_have_count(2)


def test_reasons_can_be_chosen_and_searched(open_page: OpenPage, address: str) -> None:
    page = open_page(address + "#/waiting")
    page.get_by_role("button", name="2 no device matches").click()
    expect(page.locator(".waiting-list li")).to_have_count(2)
    page.get_by_label("Search").fill("bigger")
    expect(page.locator(".waiting-list li")).to_have_count(1)
    assert "reason=" in page.url


def test_history_shows_the_holders_of_a_moment(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + "#/history?size=medium&range=1d")
    looks.wait_for_map(page)
    slider = page.locator("time-slider input[type=range]")
    expect(slider).not_to_have_attribute("max", "0")
    low, high = (int(slider.get_attribute(name) or "0") for name in ("min", "max"))
    dice = random.Random(5)
    for _ in range(12):
        at = dice.randrange(low + 3600, high)
        slider.evaluate(
            "(it, value) => { it.value = value;"
            " ['input', 'change'].forEach((name) => it.dispatchEvent(new Event(name))); }",
            at,
        )
        time = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        page.wait_for_url(lambda url, time=time: quote(time, safe="") in url)  # type: ignore[misc]
        request = type("Request", (), {"query": {"time": time}})
        then = dashboard._at(request)["cells"]  # type: ignore[arg-type]
        for key in dashboard.state["cells"]:
            if "/a100-0/" not in key:
                looks.wait_for_color(page, key, looks.HELD if key in then else looks.FREE)


def test_history_says_what_was_not_recorded(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    since, until = dashboard.gaps[0]
    assert until is not None
    page = open_page(f"{address}#/history?at={quote(since)}")
    expect(page.get_by_text("Nothing was recorded at this moment")).to_be_visible()
    page = open_page(f"{address}#/history?at={quote(until)}")
    looks.wait_for_map(page)
    expect(page.get_by_text("Nothing was recorded at this moment")).to_be_hidden()
    gap = page.locator(".slider-backdrop .gap")
    expect(gap).to_have_count(1)
    painted = gap.evaluate("(gap) => getComputedStyle(gap).fill")
    pattern = painted.removeprefix('url("#').removesuffix('")')
    assert page.locator(f".slider-backdrop pattern[id='{pattern}']").count() == 1, "it is hatched"


def test_history_says_that_no_recorder_runs_now(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    ended = datetime.now(UTC) - timedelta(minutes=10)
    dashboard.gaps.append((ended.strftime("%Y-%m-%dT%H:%M:%SZ"), None))
    page = open_page(f"{address}#/history?range=1h")
    looks.wait_for_map(page)
    expect(page.locator(".slider-backdrop .gap")).to_have_count(2)
    last = page.locator(".slider-backdrop .gap").last
    edge = float(last.get_attribute("x") or 0) + float(last.get_attribute("width") or 0)
    assert edge == 1000, "it lasts until now"
    for minutes, is_unknown in ((5, True), (-5, False)):
        at = (ended + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        page = open_page(f"{address}#/history?at={quote(at)}")
        notice = page.get_by_text("Nothing was recorded at this moment")
        (expect(notice).to_be_visible if is_unknown else expect(notice).to_be_hidden)()
    page = open_page(f"{address}#/capacity?range=1h")
    expect(page.locator(".usage-chart").first.locator(".gap")).to_have_count(2)


def test_history_shows_who_held_a_device_and_links_to_moments(
    open_page: OpenPage, address: str
) -> None:
    page = open_page(address + VIEWS["history"])
    chart = page.locator(".gantt-chart")
    expect(chart.locator(".bar.held")).to_have_count(11)
    expect(chart.locator(".bar.unhealthy")).to_have_count(1)
    chart.locator("a").nth(3).click()
    page.wait_for_url(re.compile("at="))
    expect(chart.locator(".cursor")).to_have_count(1)
    page.get_by_text("Show as table").click()
    # The periods, the mark, and the gap of the recorder.
    expect(page.locator("figure tbody tr")).to_have_count(13)
    expect(page.locator("figure tbody")).to_contain_text("unhealthy: ")
    expect(page.locator("figure tbody")).to_contain_text("not recorded")


def test_history_fits_on_a_phone(open_page: OpenPage, address: str) -> None:
    view = f"#/history?device={quote(SLICED_GPU, safe='')}&range=1h"
    page = open_page(address + view, width=360, height=740)
    page.locator(".gantt-chart").wait_for()
    fields = [field.bounding_box() for field in page.locator(".slider-bar input, select").all()]
    moment, span = (box for box in fields[:2] if box is not None)
    assert moment["x"] + moment["width"] <= 360 - 8
    assert moment["y"] + moment["height"] <= span["y"] or moment["x"] + moment["width"] <= span["x"]
    hidden = "(chart) => chart.scrollWidth - chart.clientWidth - chart.scrollLeft"
    assert page.locator(".scroll-x").evaluate(hidden) < 2, "what is now is seen without scrolling"


def test_a_holder_that_may_not_be_seen_is_no_link(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    dashboard.hidden = "a claim that you may not see"
    page = open_page(address + VIEWS["history"])
    page.get_by_text("Show as table").click()
    cell = page.get_by_role("cell", name=dashboard.hidden).first
    expect(cell).to_be_visible()
    expect(cell.get_by_role("link")).to_have_count(0)


def test_without_a_recorder_history_says_so(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    dashboard.session["history"] = {"since": None, "gaps": []}
    page = open_page(address + "#/history")
    expect(page.get_by_text("There is no history")).to_be_visible()


def test_times_are_local_with_utc_beside(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    dashboard.pages["pod/ml/train"] = object_page("Pod", "train") | {
        "events": [
            {
                "time": "2026-01-05T12:00:00Z",
                "type": "Normal",
                "reason": "R",
                "message": "m",
                "count": 1,
            }
        ]
    }
    page = open_page(address + "#/pod/ml/train")
    time = page.locator("td time")
    expect(time).to_have_text("2026-01-05 13:00:00")
    expect(time).to_have_attribute("title", "2026-01-05 12:00:00 UTC")


def test_every_chart_has_its_numbers_as_a_table(open_page: OpenPage, address: str) -> None:
    page = open_page(address + "#/capacity")
    figures = page.locator("figure")
    expect(figures).to_have_count(3)
    for figure in figures.all():
        figure.get_by_text("Show as table").click()
        expect(figure.locator("tbody tr")).to_have_count(160)


def test_the_map_is_saved_as_svg_and_png(
    open_page: OpenPage, address: str, dashboard: FakeDashboard, tmp_path: Path
) -> None:
    page = open_page(address)
    looks.wait_for_map(page)
    for name in ("svg", "png"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save the map as {name.upper()}").click()
        assert re.fullmatch(rf"devices-[\d-]+\.{name}", download.value.suggested_filename)
        download.value.save_as(tmp_path / f"map.{name}")
    drawn = (tmp_path / "map.svg").read_text("utf-8")
    for text in ("h100-0", "3g.40gb ml/left", "quickstart: 23 devices", "in use"):
        assert text in drawn
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_the_whole_map_is_printed(open_page: OpenPage, address: str, tmp_path: Path) -> None:
    page = open_page(address, color_scheme="dark")
    looks.wait_for_map(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator(".printed-map svg rect").count() > 50
    expect(page.locator("device-map")).to_be_hidden()
    expect(page.locator(".top")).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")


def test_signing_in(open_page: OpenPage, address: str, dashboard: FakeDashboard) -> None:
    dashboard.is_signed_in = False
    page = open_page(address + "#/capacity")
    field = page.get_by_label("Token, or the link")
    field.fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("The key or token is not accepted. ")
    field.fill("secret")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Capacity")
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator(".login")).to_be_visible()


def test_the_key_of_a_link_is_used_and_removed_from_the_address(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    dashboard.is_signed_in = False
    page = open_page(f"{address}#key={KEY}")
    looks.wait_for_map(page)
    assert KEY not in page.url
    assert all(KEY not in request for request in dashboard.requests)


def test_a_session_that_ends_asks_to_sign_in(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address)
    looks.wait_for_map(page)
    dashboard.is_signed_in = False
    dashboard.disconnect()
    dashboard.is_down = False
    expect(page.locator(".login")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("The session has ended")


def test_a_large_fleet_is_drawn_where_it_is_seen(open_page: OpenPage) -> None:
    dashboard = FakeDashboard(fleets.large(5000, 8))
    with serving(dashboard) as address:
        page = open_page(address)
        looks.wait_for_map(page)
        assert page.locator("*").count() < 1000
        last = f"{GPU}/node-4999/gpu-7"
        page.get_by_label("Cells").select_option("small")
        page.keyboard.press("Escape")
        looks.wait_for_map(page)
        page.locator(".map-grid a").first.focus()
        page.keyboard.press("Control+End")
        looks.wait_for_focus(page, "gpu-7")
        assert looks.box(page, last)["y"] < 800
        dashboard.change(
            cells={last: {"n": "node-4999", "s": "h100", "st": "in use", "h": ["a/b"]}}
        )
        looks.wait_for_color(page, last, looks.HELD)
        dashboard.change(cells={last: {"n": "node-4999", "s": "h100", "st": "free"}})
        looks.wait_for_color(page, last, looks.FREE)


def test_what_is_shown_of_an_object_follows_its_changes(
    open_page: OpenPage, address: str, dashboard: FakeDashboard
) -> None:
    page = open_page(address + "#/claim/ml/train-gpu")
    page.wait_for_selector(".chain")
    dashboard.pages["claim/ml/train-gpu"] = object_page("ResourceClaim", "train-gpu") | {
        "facts": [{"label": "State", "value": "free"}]
    }
    before = len(dashboard.requests)
    dashboard.change(cells={HELD_GPU: {"n": "h100-0", "s": "h100", "st": "free"}})
    expect(page.locator(".facts")).to_have_text(re.compile("State\\s*free"))
    block_until(lambda: len(dashboard.requests) > before)
    assert _drawn(page) == [f"{GPU}/h100-0/gpu-1"]


def _drawn(page: Page) -> list[str]:
    found: list[Any] = page.locator(".map-grid a").evaluate_all(
        "(all) => all.map((it) => it.dataset.key)"
    )
    return found
