"""Text as Go prints it, for the messages that clients of Kubernetes know."""

from __future__ import annotations

from collections.abc import Iterable

_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quote(text: str) -> str:
    """Return `text` as the verb %q prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def value(item: object) -> str:
    """Return decoded JSON as `%v` prints it: `map[a:1 b:[x y]]`."""
    if isinstance(item, dict):
        pairs = (f"{key}:{value(item[key])}" for key in sorted(item))
        return f"map[{' '.join(pairs)}]"
    if isinstance(item, list):
        return f"[{' '.join(map(value, item))}]"
    if item is None:
        return "<nil>"
    return str(item).lower() if isinstance(item, bool) else str(item)


def quoted_list(texts: Iterable[str]) -> str:
    """Return `texts` as messages list the supported values."""
    return ", ".join(map(quote, texts))


def aggregate(messages: Iterable[str]) -> str:
    """Join several errors, each once, as apimachinery, util/errors, Aggregate does."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
