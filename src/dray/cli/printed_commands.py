"""Commands in texts for the user: they go to the cluster of the command that prints them."""

from __future__ import annotations

import re

import click

COMMAND = (
    r"(?P<before>^ +|: |, or |then |\| |&& |`)"
    r"""(?P<command>dray [a-z](?:'[^']*'|"[^"]*"|\.(?! |$)|&(?!&)|[^,;`'".&\n])*)"""
)
"""A command that is printed to be run: after a colon, alone on its line, or quoted."""
WITHOUT_CLUSTER = (
    "apiserver",
    "backup",
    "bench",
    "completion",
    "demo",
    "down",
    "driver",
    "fleet list",
    "fleet show",
    "lint(?!.* --against )",
    "plan replay",
    "restore",
    "status",
    "up",
)
"""The beginnings of commands that need no cluster, and so no options that choose one."""


def options(kubeconfig: str, context: str) -> str:
    """Return the options with which another command goes to the same cluster."""
    # Late, as it is rarely needed.
    import shlex

    given = {"--kubeconfig": kubeconfig, "--context": context}
    return "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)


def for_cluster(text: str, chosen: str) -> str:
    """Return a text with the options of a cluster behind each command that needs one."""
    if not chosen:
        return text
    without = rf"dray ({'|'.join(WITHOUT_CLUSTER)})( |$)"

    def completed(found: re.Match[str]) -> str:
        command = found["command"].rstrip()
        if re.search(" --(kubeconfig|context) ", command) or re.match(without, command):
            return found[0]
        return f"{found['before']}{command}{chosen}{found['command'][len(command) :]}"

    return re.sub(COMMAND, completed, text, flags=re.MULTILINE)


def for_same_cluster(text: str) -> str:
    """Return a text whose commands go to the cluster that the running command was told to use."""
    context = click.get_current_context(silent=True)
    if context is None or "dray " not in text:
        return text
    given = context.params
    return for_cluster(text, options(given.get("kubeconfig") or "", given.get("context") or ""))
