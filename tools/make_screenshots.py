"""Writes the screenshots of the dashboard in docs: the page of a cluster that runs, in Chromium.

`python -m tools.make_screenshots`, or `make generate`; without Chromium it says so and leaves them
as they are. Names and times differ from run to run. A test checks that pages show each of them.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser import looks
from tests.browser.conftest import OPTIONS, program
from tests.browser.running import RunningDray, pod, running, template
from tests.waiting import block_until

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "dashboard"
FLEET = ROOT / "tools" / "dashboard-fleet.yaml"
GPU = "gpu.nvidia.com"
SIZE = {"width": 1280, "height": 720}
PARTITIONED = f"{GPU}/a100-0/gpu-0"
VIEWS = {
    "map": ("#/devices?size=medium", "light"),
    "map-dark": ("#/devices?size=medium", "dark"),
    "partitions": ("#/node/a100-0", "light"),
    "waiting": ("#/waiting/pod/research/fine-tune", "light"),
    "history": (f"#/history?size=medium&range=all&device={quote(PARTITIONED, safe='')}", "light"),
}
READY = {
    "map": ".map-grid a",
    "map-dark": ".map-grid a",
    "partitions": ".facts",
    "waiting": ".funnel",
    "history": ".gantt-chart",
}


def main() -> None:
    path = program()
    if path is None:
        print("Chromium is not on PATH: docs/dashboard stays as it is", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="dray-", dir="/tmp") as home:
        options = ("--fleet", str(FLEET), "--store", "memory")
        with running(Path(home) / "data", *options) as dray, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=[*OPTIONS])
            prepare(dray)
            _shoot(browser, dray)
            browser.close()


def prepare(dray: RunningDray) -> None:
    """Let teams use whole GPUs, partitions and shares; one GPU has failed, and two pods wait."""
    dice = random.Random(3)
    for namespace in ("research", "vision", "web"):
        dray.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        dray.apply(*_templates(namespace))
    for number, profile in enumerate(("3g", "2g", "1g", "1g", "3g", "1g", "2g")):
        _start(dray, "vision", f"notebook-{number}", profile)
    for number in range(31):
        team, name = dice.choice(
            (("research", "train"), ("vision", "detect"), ("research", "eval"))
        )
        _start(dray, team, f"{name}-{number}", "whole")
        if number in (8, 16, 24):
            # Somebody else takes the place.
            dray.run("delete", "pod", f"notebook-{number // 8}", "-n", "vision")
            _start(dray, "web", f"batch-{number // 8}", ("2g", "1g", "1g")[number // 8 - 1])
    for number in range(5):
        _start(dray, "web", f"api-{number}", "share")
    _start(dray, "research", "fine-tune", "large")
    _start(dray, "vision", "pretrain", "many")
    block_until(lambda: "Pending" not in _phases(dray), "running pods")
    # Some end, so that history has something to show and partitions leave holes.
    dray.run("delete", "pod", "notebook-4", "notebook-5", "-n", "vision")
    dray.run("patch", "node", "h100-5", "--patch", '{"spec": {"unschedulable": true}}')
    dray.run("fleet", "fail", "--effect", "NoSchedule", "h100-4", "gpu-6")


def _templates(namespace: str) -> list[dict[str, Any]]:
    memory = f'device.capacity["{GPU}"].memory'
    whole = f'device.attributes["{GPU}"].architecture == "Hopper"'
    large = f'{memory}.compareTo(quantity("140Gi")) >= 0'
    shared = "device.allowMultipleAllocations == true"
    found = [template("whole", whole), template("large", large), template("share", shared)]
    many = template("many", whole)
    many["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 16
    found.append(many)
    for slots, size in (("1g", "10gb"), ("2g", "20gb"), ("3g", "40gb")):
        profile = f'device.attributes["{GPU}"].profile == "{slots}.{size}"'
        found.append(template(slots, profile, device_class="mig.nvidia.com"))
    for each in found:
        each["metadata"]["namespace"] = namespace
    return found


def _start(dray: RunningDray, namespace: str, name: str, claim: str) -> None:
    started = pod(name, claim)
    started["metadata"]["namespace"] = namespace
    dray.apply(started)


def _phases(dray: RunningDray) -> str:
    """The phases of the pods that can run."""
    columns = "custom-columns=NAME:.metadata.name,PHASE:.status.phase"
    lines = dray.run("get", "pods", "-A", "-o", columns).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("fine-tune", "pretrain")))


def _shoot(browser: Browser, dray: RunningDray) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(dray.link)
    looks.wait_for_map(page)
    for name, (view, scheme) in VIEWS.items():
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.goto(dray.address + view)
        page.reload()
        page.wait_for_selector(READY[name])
        _settle(page)
        page.screenshot(path=FOLDER / f"{name}.png")
    context.close()


def _settle(page: Page) -> None:
    """Wait until what is asked for has come and is drawn."""
    page.wait_for_load_state("load")
    page.evaluate(
        "new Promise((done) => requestIdleCallback(() => requestAnimationFrame(() => done(0)),"
        " {timeout: 1000}))"
    )


if __name__ == "__main__":
    main()
