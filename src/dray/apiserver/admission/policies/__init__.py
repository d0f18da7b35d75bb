"""Validating admission policies: matched, compiled and enforced."""
