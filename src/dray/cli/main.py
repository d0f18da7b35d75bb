"""The `dray` command. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

import dray
from dray.cli import cluster_options
from dray.cli.lazy_group import LazyGroup

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "demo": ("demo.command:demo", "Run a guided demo."),
        "up": ("components.up:up", "Run a local cluster until stopped."),
        "down": ("components.down:down", "Stop what `dray up` runs."),
        "status": ("components.status:status", "Show whether the cluster is running and healthy."),
        "fleet": ("components.fleet:fleet", "Simulated nodes: list, show, fail, heal, scale."),
        "apiserver": ("components.apiserver:apiserver", "Serve the Kubernetes API."),
        "scheduler": ("components.scheduler:scheduler", "Assign nodes and devices to pods."),
        "controllers": (
            "components.controllers:controllers",
            "Run the controllers of claims and workloads.",
        ),
        "node": ("components.node:node", "Make this computer a node that runs pods."),
        "driver": ("components.driver:driver", "Run a driver on this node, or make a new one."),
        "exporter": (
            "components.exporter:exporter",
            "Serve figures about devices and claims for Prometheus.",
        ),
        "record": ("history.record:record", "Record who holds which device of a cluster."),
        "backup": ("components.backup:backup", "Write the whole state to a file."),
        "restore": ("components.backup:restore", "Replace the state by a backup."),
        "revoke": ("access.revoke:revoke", "End a user's certificates and tokens."),
        "get": ("verbs.get:get", "Show objects; also `get devices`."),
        "top": ("insight.top:top", "Watch devices, and what waits and why."),
        "ui": ("components.dashboard.command:ui", "Show the cluster in a browser."),
        "describe": (
            "verbs.descriptions.command:describe",
            "Show all fields of objects, and events.",
        ),
        "apply": ("verbs.apply:apply", "Create or change objects as files say."),
        "create": ("verbs.apply:create", "Create the objects of files."),
        "delete": ("verbs.delete:delete", "Delete objects."),
        "logs": ("verbs.logs:logs", "Print the log of a container."),
        "exec": ("verbs.exec:exec_", "Run a command in a container."),
        "attach": ("verbs.exec:attach", "Attach to a running container."),
        "port-forward": ("verbs.port_forward:port_forward", "Forward local ports to a pod."),
        "wait": ("verbs.wait:wait", "Wait for a condition on objects."),
        "events": ("verbs.events:events", "Show events."),
        "label": ("verbs.patch_label:label", "Set and remove labels."),
        "patch": ("verbs.patch_label:patch", "Change fields of objects."),
        "api-resources": ("verbs.server_info:api_resources", "List the served resources."),
        "version": ("verbs.server_info:version", "Print versions."),
        "explain": ("explain.command:explain", "Explain why pods and claims wait or fail."),
        "cel": ("insight.cel:cel", "Check a selector and show what it matches."),
        "lint": ("lint.command:lint", "Check manifests for mistakes."),
        "doctor": ("doctor.command:doctor", "Find problems of a cluster, and repair them."),
        "conformance": ("conformance.command:conformance", "Check a DRA driver."),
        "plan": ("plan.command:plan", "Say what would fit, what would help, what wastes least."),
        "history": ("history.command:history", "Show who held which device when."),
        "snapshot": ("insight.snapshot:snapshot", "Write a cluster's DRA objects to a file."),
        "mcp": ("mcp.command:mcp", "Serve read-only tools to an assistant (MCP)."),
        "completion": ("completion:completion", "Print a completion script for a shell."),
        "bench": ("bench.command:bench", "Run a benchmark and print its figures."),
    }
)
"""Place and help of each command."""

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Cluster": ("demo", "up", "down", "status", "fleet", "backup", "restore", "revoke"),
        "Inspect": (
            "get",
            "describe",
            "top",
            "ui",
            "events",
            "logs",
            "history",
            "api-resources",
            "version",
        ),
        "Diagnose": (
            *("explain", "lint", "cel", "plan", "doctor", "conformance", "snapshot", "mcp"),
        ),
        "Objects": (
            *("apply", "create", "delete", "patch", "label", "wait", "exec", "attach"),
            "port-forward",
        ),
        "Components": (
            "apiserver",
            "scheduler",
            "controllers",
            "node",
            "driver",
            "exporter",
            "record",
            "completion",
            "bench",
        ),
    }
)
"""Commands by the titles of the help."""

main = LazyGroup(
    COMMANDS,
    sections=SECTIONS,
    name="dray",
    help="A complete Python implementation of Kubernetes Dynamic Resource Allocation.",
    epilog=(
        "Exit codes: 0 done, 1 request rejected or check failed, 2 wrong arguments, 3 cluster "
        "unreachable or access denied, 4 no such object, 5 timed out."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DRAY"},
    callback=lambda **_: None,
)
main = cluster_options.added(main)
main = click.version_option(dray.__version__, prog_name="dray")(main)
