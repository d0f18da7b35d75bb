"""Looking at the page: what is drawn where, and waiting until it is."""

from __future__ import annotations

from typing import Any, Final

from playwright.sync_api import Locator, Page

DEADLINE: Final = 30_000
"""Milliseconds; only a test that fails waits so long."""

_PIXEL: Final = """
([key, across, down]) => {
  const map = document.querySelector("device-map");
  const rect = map?.rectOf?.(key);
  const canvas = map?.querySelector("canvas");
  if (!rect || !canvas.width) return null;
  const frame = canvas.getBoundingClientRect();
  const ratio = canvas.width / frame.width;
  const x = (rect.x - frame.x + rect.width * across) * ratio;
  const y = (rect.y - frame.y + rect.height * down) * ratio;
  return [...canvas.getContext("2d").getImageData(Math.floor(x), Math.floor(y), 1, 1).data];
}
"""
_COLOR: Final = """
(name) => {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data];
}
"""
HELD: Final = "--held"
FREE: Final = "--free-tint"
HOLE: Final = "--hole"


def pixel(page: Page, key: str, across: float = 0.5, down: float = 0.9) -> list[int] | None:
    """The colour of a place in the cell of a device, as it is drawn."""
    found: list[int] | None = page.evaluate(_PIXEL, [key, across, down])
    return found


def color(page: Page, name: str) -> list[int]:
    """A colour of the style sheet."""
    found: list[int] = page.evaluate(_COLOR, name)
    return found


def wait_for_color(
    page: Page,
    key: str,
    name: str,
    across: float = 0.5,
    down: float = 0.9,
    milliseconds: int = DEADLINE,
) -> None:
    """Wait until a place in a cell has a colour of the style sheet."""
    page.wait_for_function(
        f"([place, name]) => String(({_PIXEL})(place)) === String(({_COLOR})(name))",
        arg=[[key, across, down], name],
        timeout=milliseconds,
    )


def wait_for_map(page: Page) -> None:
    """Wait until the map has cells."""
    page.wait_for_selector("device-map .map-grid a", state="attached")


def wait_for_focus(page: Page, text: str) -> None:
    """Wait until what has the keyboard's focus contains a text."""
    page.wait_for_function(
        "(text) => document.activeElement?.textContent?.includes(text)", arg=text
    )


def width_beyond(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return found


def open_details(page: Page) -> None:
    """Open all that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def texts(found: Locator) -> list[str]:
    return [text.strip() for text in found.all_inner_texts()]


def box(page: Page, key: str) -> dict[str, Any]:
    """Where the cell of a device is in the window."""
    found: dict[str, Any] = page.evaluate(
        "(key) => document.querySelector('device-map').rectOf(key).toJSON()", key
    )
    return found
