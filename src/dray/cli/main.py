"""The `dray` command. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

import dray
from dray.cli import cluster_options
from dray.cli.lazy_group import LazyGroup

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "Cluster": {
            "demo": ("demo.command:demo", "Run a guided demo."),
            "up": ("components.up:up", "Run a local cluster until stopped."),
            "down": ("components.down:down", "Stop what `dray up` runs."),
            "status": (
                "components.status:status",
                "Show whether the cluster is running and healthy.",
            ),
            "fleet": (
                "components.fleet:fleet",
                "Simulated nodes: list, show, fail, heal, scale.",
            ),
            "backup": ("components.backup:backup", "Write the whole state to a file."),
            "restore": ("components.backup:restore", "Replace the state by a backup."),
            "revoke": ("access.revoke:revoke", "End a user's certificates and tokens."),
        },
        "Inspect": {
            "get": ("verbs.get:get", "Show objects; also `get devices`."),
            "describe": (
                "verbs.descriptions.command:describe",
                "Show all fields of objects, and events.",
            ),
            "top": ("insight.top:top", "Watch devices, and what waits and why."),
            "events": ("verbs.events:events", "Show events."),
            "logs": ("verbs.logs:logs", "Print the log of a container."),
            "history": ("insight.history:history", "Show who held a device when."),
            "api-resources": ("verbs.server_info:api_resources", "List the served resources."),
            "version": ("verbs.server_info:version", "Print versions."),
        },
        "Diagnose": {
            "explain": ("insight.explain:explain", "Show why a pod or claim has no devices."),
            "lint": ("lint.command:lint", "Check manifests for mistakes."),
            "cel": ("insight.cel:cel", "Check a selector and show what it matches."),
            "doctor": ("doctor.command:doctor", "Find problems of a cluster, and repair them."),
            "snapshot": ("insight.snapshot:snapshot", "Write a cluster's DRA objects to a file."),
        },
        "Objects": {
            "apply": ("verbs.apply:apply", "Create or change objects as files say."),
            "create": ("verbs.apply:create", "Create the objects of files."),
            "delete": ("verbs.delete:delete", "Delete objects."),
            "patch": ("verbs.patch_label:patch", "Change fields of objects."),
            "label": ("verbs.patch_label:label", "Set and remove labels."),
            "wait": ("verbs.wait:wait", "Wait for a condition on objects."),
            "exec": ("verbs.exec:exec_", "Run a command in a container."),
            "attach": ("verbs.exec:attach", "Attach to a running container."),
        },
        "Components": {
            "apiserver": ("components.apiserver:apiserver", "Serve the Kubernetes API."),
            "scheduler": ("components.scheduler:scheduler", "Assign nodes and devices to pods."),
            "controllers": (
                "components.controllers:controllers",
                "Run the controllers of claims and workloads.",
            ),
            "node": ("components.node:node", "Make this computer a node that runs pods."),
            "driver": ("components.driver:driver", "Run a driver on this node: nvidia."),
            "completion": ("completion:completion", "Print a completion script for a shell."),
            "bench": ("bench.command:bench", "Run a benchmark and print its figures."),
        },
    }
)

main = LazyGroup(
    SECTIONS,
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
