"""The place of a waiting pod among the pods that ask for the same devices."""

from __future__ import annotations

from collections.abc import Sequence

from dray.explain.text import phrases

EXACT_PLACES = 10
"""Pods further back are not told their exact place: it changes with every pod that starts."""
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def place_in_line(ahead: Sequence[str]) -> str:
    """Return a sentence with the place of a pod, or "" for the first.

    `ahead` are the pods before it as namespace/name, the first in line first; EXACT_PLACES of them
    are enough.
    """
    if not ahead:
        return ""
    if len(ahead) >= EXACT_PLACES:
        return f"At least {EXACT_PLACES} pods are ahead of it in line for the same devices."
    noun = "pod" if len(ahead) == 1 else "pods"
    place = f"{len(ahead) + 1}{_SUFFIXES.get(len(ahead) + 1, 'th')}"
    return f"It is {place} in line for these devices, after {noun} {phrases.listed(ahead)}."
