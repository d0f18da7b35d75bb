"""Measures the page of the dashboard with 5,000 nodes of 8 devices, in Chromium.

`python -m tools.measure_page --minutes 10` prints when the devices were drawn after the page was
opened, and what its process uses while 50 devices a second change, as JSON. `--server` measures it
with a `dray up` instead of a server that only has the documents, and what that server has to do.
`--link LINK` measures the dashboard that the link leads to, with its own changes.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.conftest import OPTIONS, program
from tests.browser.fake_server import STATIC

from tools import changing_cluster

ROOT = Path(__file__).parents[1]
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
LOOKS_SECONDS = 5.0
NODES = 5000
Report = Callable[[], dict[str, Any]]
DRAWN = """
() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const drawn = performance.getEntriesByName("devices-drawn")[0]?.startTime;
  return drawn === undefined ? null : {paint, drawn};
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--churn", type=int, default=50, help="changes a second")
    parser.add_argument("--opens", type=int, default=5, help="how often the page is opened")
    parser.add_argument("--server", action="store_true", help="with a `dray up` of its own")
    parser.add_argument("--link", help="of a dashboard that runs")
    options = parser.parse_args()
    path = program()
    if path is None:
        sys.exit("Chromium is not on PATH: install it")
    with contextlib.ExitStack() as stack:
        link, report = stack.enter_context(_served(options))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=path, args=[*OPTIONS])
        measured = _measured(browser, link, options, report)
        browser.close()
    print(json.dumps(measured, indent=2))


@contextlib.contextmanager
def _served(options: argparse.Namespace) -> Iterator[tuple[str, Report]]:
    """Yield a link, and a function that says what the server did since it was last asked."""
    if options.server:
        with changing_cluster.changing(NODES, options.churn) as cluster:
            time.sleep(LOOKS_SECONDS)
            yield cluster.dray.link, cluster.report
    elif options.link:
        yield options.link, dict
    else:
        with _fake(options.churn) as link:
            yield link, dict


@contextlib.contextmanager
def _fake(churn: int) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.browser.fake_server", "--fleet", "large", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--churn", str(churn)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)


def _measured(
    browser: Browser, link: str, options: argparse.Namespace, report: Report
) -> dict[str, Any]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    opened = []
    alone = report()
    for _ in range(options.opens):
        page.goto("about:blank")
        page.goto(link)
        opened.append(_drawn(page))
        link = link.partition("#")[0]
    opening, before = report(), _usage()
    sizes = []
    end = time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        time.sleep(min(LOOKS_SECONDS, max(0.0, end - time.monotonic())))
        sizes.append(_usage()[0])
    looking, after = report(), _usage()
    return {
        "server before, while pages are opened, and then": [alone, opening, looking],
        "first contentful paint, ms": _spread([each["paint"] for each in opened]),
        "devices drawn, ms": _spread([each["drawn"] for each in opened]),
        "resident at first, MB": before[0] // 10**6,
        "resident at most, MB": max(sizes, default=before[0]) // 10**6,
        "resident at the end, MB": after[0] // 10**6,
        "share of a core": round((after[1] - before[1]) / max(1.0, options.minutes * 60), 3),
        "elements": page.locator("*").count(),
        "files with gzip, bytes": sum(
            len(gzip.compress(file.read_bytes())) for file in STATIC.rglob("*") if file.is_file()
        ),
    }


def _drawn(page: Page) -> dict[str, float]:
    found: dict[str, float] = page.wait_for_function(DRAWN, timeout=60_000).json_value()
    return found


def _spread(values: list[float]) -> dict[str, int]:
    return {
        "median": round(statistics.median(values)),
        "least": round(min(values)),
        "most": round(max(values)),
    }


def _usage() -> tuple[int, float]:
    """Resident bytes and CPU seconds of the largest renderer below this process."""
    found = [_of_process(pid) for pid in _descendants() if "--type=renderer" in _command(pid)]
    return max(found, default=(0, 0.0))


def _of_process(pid: int) -> tuple[int, float]:
    resident = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return resident, (int(fields[11]) + int(fields[12])) / TICKS


def _descendants() -> set[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text("utf-8", "replace")
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
