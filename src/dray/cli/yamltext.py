"""YAML as kubectl writes it: sorted keys, double quotes where a text could be something else."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Lists are not indented under their key, and nothing is an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    style = None
    if dumper.resolve(yaml.ScalarNode, text, (True, False)) != tag:  # type: ignore[no-untyped-call]
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar(tag, text, style=style)


_Dumper.add_representer(str, _represent_text)


def write(document: Any) -> str:
    return yaml.dump(document, Dumper=_Dumper, allow_unicode=True, sort_keys=True, width=80)
