"""Calls the validation rules of a kind and turns what they say into the causes of a 422."""

from __future__ import annotations
