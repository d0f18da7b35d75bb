"""Renders our chart as Helm does: the few template actions it uses, and no others."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dray.api.types.meta import JsonObject

CHART = Path(__file__).parents[2] / "deploy/helm/dray-nvidia"
RELEASE, NAMESPACE = "gpu-driver", "dray-system"
_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*\}\}")
_INDENTED = re.compile(r"toYaml (\S+) \| nindent (\d+)")
_DEFAULT = re.compile(r"(\S+) \| default (\S+)")


def documents(**changes: Any) -> list[JsonObject]:
    """The objects of the chart, with values changed by their dotted names (`a__b=1`)."""
    context = _context(changes)
    texts = (_render(path.read_text("utf-8"), context) for path in _templates())
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def _templates() -> list[Path]:
    return sorted((CHART / "templates").glob("*.yaml"))


def _context(changes: dict[str, Any]) -> JsonObject:
    values = copy.deepcopy(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))
    for name, value in changes.items():
        *parents, last = name.split("__")
        target = values
        for parent in parents:
            target = target[parent]
        assert last in target, f"{name} is not one of the chart's values"
        target[last] = value
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    return {
        "Values": values,
        "Chart": {"Name": chart["name"], "AppVersion": chart["appVersion"]},
        "Release": {"Name": RELEASE, "Namespace": NAMESPACE},
    }


def _render(template: str, context: JsonObject) -> str:
    return "".join(_pieces(template, context))


def _pieces(template: str, context: JsonObject) -> Iterator[str]:
    shown, position = [True], 0
    for action in _ACTION.finditer(template):
        if all(shown):
            yield template[position : action.start()]
            yield "" if action[2] else action[1]
        position = action.end()
        match action[3].split(" ", 1):
            case ["if", condition]:
                shown.append(bool(_value(condition, context)))
            case ["else"]:
                shown.append(not shown.pop())
            case ["end"]:
                shown.pop()
            case _:
                if all(shown):
                    yield _text(action[3], context)
    assert len(shown) == 1, "an if without an end"
    yield template[position:]


def _text(action: str, context: JsonObject) -> str:
    if found := _INDENTED.fullmatch(action):
        lines = yaml.safe_dump(_value(found[1], context), default_flow_style=False).splitlines()
        return "".join(f"\n{' ' * int(found[2])}{line}" for line in lines)
    if found := _DEFAULT.fullmatch(action):
        return str(_value(found[1], context) or _value(found[2], context))
    return str(_value(action, context))


def _value(name: str, context: JsonObject) -> Any:
    assert name.startswith("."), f"{name} is not a value"
    found: Any = context
    for part in name[1:].split("."):
        found = found[part]
    return found
