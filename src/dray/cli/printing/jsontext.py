"""JSON as Go's encoder writes it: sorted keys, and nothing that a browser could take for HTML."""

from __future__ import annotations

import json
from typing import Any

_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def write(document: Any, *, indent: int | None = None) -> str:
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(
        document, indent=indent, separators=separators, sort_keys=True, ensure_ascii=False
    )
    # Outside of strings JSON has none of these characters.
    return text.translate(_ESCAPED)
