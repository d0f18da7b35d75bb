"""The refusal of an object by a rule of admission."""

from __future__ import annotations


class Refused(Exception):
    """The API server refuses an object; the message is upstream's."""
