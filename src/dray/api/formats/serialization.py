"""JSON as Go's encoder writes it, and YAML as kubectl writes it: keys sorted."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from dray.api.formats import gojson


def write_json(document: Any, *, indent: int | None = None) -> str:
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(
        document, indent=indent, separators=separators, sort_keys=True, ensure_ascii=False
    )
    return gojson.escaped(text.encode()).decode()


_GO_BOOLS = frozenset("yYnN")
_GO_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|0[xob][\da-fA-F_]+")


class Dumper(yaml.SafeDumper):
    """A YAML dumper without indented lists and without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _could_be_something_else(dumper: Dumper, text: str) -> bool:
    """Return whether YAML 1.1 reads the bare text as a number, a bool or a time."""
    if text in _GO_BOOLS or _GO_NUMBER.fullmatch(text):
        return True
    tag = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag.rpartition(":")[2] in ("bool", "int", "float", "null", "timestamp", "merge")


def _represent_text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    style = None
    if _could_be_something_else(dumper, text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar(tag, text, style=style)


Dumper.add_representer(str, _represent_text)


def write_yaml(document: Any, *, in_order: bool = False) -> str:
    """Return YAML. `in_order` keeps the order of the keys, for files that users edit."""
    return yaml.dump(document, Dumper=Dumper, allow_unicode=True, sort_keys=not in_order, width=80)
