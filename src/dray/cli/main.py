"""The `dray` command. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

import dray
from dray.cli.lazy_group import LazyGroup

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "demo": ("demo.command:demo", "See dray work, from a cluster to an answer."),
        "up": ("components.up:up", "Run a whole cluster on a simulated fleet."),
        "down": ("components.down:down", "Stop what `dray up` runs."),
        "status": ("components.status:status", "Say whether it is up, and how it is."),
        "fleet": ("components.fleet:fleet", "Simulated machines: list, show, fail, heal, scale."),
        "apiserver": ("components.apiserver:apiserver", "Serve the Kubernetes API."),
        "scheduler": ("components.scheduler:scheduler", "Give pods nodes and devices."),
        "controllers": (
            "components.controllers:controllers",
            "Keep claims and workloads in order.",
        ),
        "node": ("components.node:node", "Make this computer a node that runs pods."),
        "driver": ("components.driver:driver", "Run a driver on this node: nvidia."),
        "backup": ("components.backup:backup", "Write the whole state to a file."),
        "restore": ("components.backup:restore", "Put a backup back."),
        "revoke": ("access.revoke:revoke", "End a user's certificates and tokens."),
        "get": ("verbs.get:get", "Show objects; also `get devices`."),
        "top": ("insight.top:top", "Watch devices, and what waits and why."),
        "describe": ("verbs.describe:describe", "Show everything about objects."),
        "apply": ("verbs.apply:apply", "Make objects what files say."),
        "create": ("verbs.apply:create", "Create the objects of files."),
        "delete": ("verbs.delete:delete", "Delete objects."),
        "logs": ("verbs.logs:logs", "Print what a container prints."),
        "exec": ("verbs.exec:exec_", "Run a command in a container."),
        "attach": ("verbs.exec:attach", "See and type at a running container."),
        "wait": ("verbs.wait:wait", "Wait until objects are as they should be."),
        "events": ("verbs.events:events", "Show what happened."),
        "label": ("verbs.patch_label:label", "Set and remove labels."),
        "patch": ("verbs.patch_label:patch", "Change fields of objects."),
        "api-resources": ("verbs.server_info:api_resources", "List what is served."),
        "version": ("verbs.server_info:version", "Print versions."),
        "explain": ("explain.command:explain", "Explain why pods and claims wait or fail."),
        "cel": ("insight.cel:cel", "Check a selector and see what it matches."),
        "lint": ("lint.command:lint", "Say what is wrong with manifests."),
        "doctor": ("doctor.command:doctor", "Say what is wrong, and mend it."),
        "history": ("insight.history:history", "Say who had a device when."),
        "snapshot": ("insight.snapshot:snapshot", "Print what matters of a cluster, to a file."),
        "completion": ("completion:completion", "Print a script that completes words."),
        "bench": ("bench.command:bench", "Run a benchmark and print its figures."),
    }
)

main = LazyGroup(
    COMMANDS,
    name="dray",
    help="Kubernetes Dynamic Resource Allocation, complete, in Python.",
    epilog=(
        "Exit codes: 0 done, 1 refused or not as it should be, 2 wrong arguments, 3 no cluster "
        "to be reached, 4 no such object, 5 waited in vain."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DRAY"},
)
main = click.version_option(dray.__version__, prog_name="dray")(main)
