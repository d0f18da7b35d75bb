"""JSON as Go's encoder writes it: sorted keys, and nothing that a browser could take for HTML."""

from __future__ import annotations

import json
from typing import Any

from dray.api import gojson


def write(document: Any, *, indent: int | None = None) -> str:
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(
        document, indent=indent, separators=separators, sort_keys=True, ensure_ascii=False
    )
    return gojson.escaped(text.encode()).decode()
