"""Options and commands of kubectl 1.37, for messages about those that dray does not have.

A test compares the tables with `kubectl --help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TEMPLATES = "allow-missing-template-keys template show-managed-fields"
_FILES = "filename kustomize recursive"

GLOBAL = frozenset(
    [
        "as",
        "as-group",
        "as-uid",
        "as-user-extra",
        "cache-dir",
        "certificate-authority",
        "client-certificate",
        "client-key",
        "cluster",
        "context",
        "disable-compression",
        "insecure-skip-tls-verify",
        "kubeconfig",
        "kuberc",
        "log-flush-frequency",
        "match-server-version",
        "namespace",
        "password",
        "profile",
        "profile-output",
        "proxy-url",
        "request-timeout",
        "server",
        "tls-server-name",
        "token",
        "user",
        "username",
        "v",
        "vmodule",
        "warnings-as-errors",
    ]
)
"""Options that kubectl has for every command."""

OPTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        command: frozenset(names.split())
        for command, names in {
            "api-resources": "api-group cached categories namespaced no-headers output "
            "show-managed-fields sort-by verbs",
            "apply": f"{_TEMPLATES} {_FILES} all cascade dry-run field-manager force "
            "force-conflicts grace-period openapi-patch output overwrite prune prune-allowlist "
            "selector server-side subresource timeout validate wait",
            "attach": "container detach-keys pod-running-timeout quiet stdin tty",
            "create": f"{_TEMPLATES} {_FILES} dry-run edit field-manager output raw save-config "
            "selector validate windows-line-endings",
            "delete": f"{_FILES} all all-namespaces cascade dry-run field-selector force "
            "grace-period ignore-not-found interactive now output raw selector timeout wait",
            "describe": f"{_FILES} all-namespaces chunk-size selector show-events",
            "events": f"{_TEMPLATES} all-namespaces chunk-size for no-headers output types watch",
            "exec": "container filename pod-running-timeout quiet stdin tty",
            "get": f"{_TEMPLATES} {_FILES} all-namespaces chunk-size field-selector "
            "ignore-not-found label-columns no-headers output output-watch-events raw selector "
            "server-print show-kind show-labels sort-by subresource watch watch-only",
            "label": f"{_TEMPLATES} {_FILES} all all-namespaces dry-run field-manager "
            "field-selector list local output overwrite resource-version selector",
            "logs": "all-containers all-pods container follow ignore-errors "
            "insecure-skip-tls-verify-backend limit-bytes max-log-requests pod-running-timeout "
            "prefix previous selector since since-time tail timestamps",
            "patch": f"{_TEMPLATES} {_FILES} dry-run field-manager local output patch patch-file "
            "subresource type",
            "version": "client output",
            "wait": f"{_TEMPLATES} all all-namespaces field-selector filename for local output "
            "recursive selector timeout",
        }.items()
    }
)
"""Options of the commands that both have, without the global ones."""

SHORT: Mapping[str, str] = MappingProxyType(
    {
        "A": "all-namespaces",
        "L": "label-columns",
        "R": "recursive",
        "c": "container",
        "f": "filename",
        "i": "stdin",
        "k": "kustomize",
        "l": "selector",
        "n": "namespace",
        "o": "output",
        "p": "previous",
        "q": "quiet",
        "s": "server",
        "t": "tty",
        "v": "v",
        "w": "watch",
    }
)
"""One-letter options; some letters mean something else for a few commands."""
SHORT_OF_COMMAND: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "delete": MappingProxyType({"i": "interactive"}),
        "logs": MappingProxyType({"f": "follow"}),
        "patch": MappingProxyType({"p": "patch"}),
    }
)

COMMANDS = frozenset(
    [
        "annotate",
        "api-versions",
        "auth",
        "autoscale",
        "certificate",
        "cluster-info",
        "config",
        "cordon",
        "cp",
        "debug",
        "diff",
        "drain",
        "edit",
        "expose",
        "kuberc",
        "kustomize",
        "options",
        "plugin",
        "port-forward",
        "proxy",
        "replace",
        "rollout",
        "run",
        "scale",
        "set",
        "taint",
        "uncordon",
    ]
)
"""Commands that kubectl has, and dray need not have."""


def is_of_kubectl(command: str, option: str) -> bool:
    """Return whether kubectl has an option such as `--template` or `-k` for a command."""
    if command not in OPTIONS:
        return False
    name = option.lstrip("-")
    if not option.startswith("--"):
        name = {**SHORT, **SHORT_OF_COMMAND.get(command, {})}.get(name, "")
    return name in OPTIONS[command] or name in GLOBAL
