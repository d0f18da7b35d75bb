"""Examples of commands for `--help` and the reference; a test parses every one of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "demo": ("dray demo",),
        "up": (
            "dray up                         # this computer if it has a GPU, else simulated ones",
            "dray up --fleet h100 --nodes 2  # a simulated fleet, two nodes of each kind",
            "dray up --data ~/lab --listen 127.0.0.1:7443",
        ),
        "ui": (
            "dray ui",
            "dray ui --context production",
            "dray ui --allow-actions --record ~/gpus.db",
        ),
        "down": ("dray down", "dray down --keep-pods            # containers go on running"),
        "status": ("dray status", "dray status -o json"),
        "fleet list": ("dray fleet list",),
        "fleet show": ("dray fleet show quickstart",),
        "fleet fail": ("dray fleet fail gpu-0 gpu-1",),
        "fleet slow": ("dray fleet slow gpu-0 5s",),
        "fleet crash": ("dray fleet crash gpu-0",),
        "fleet heal": ("dray fleet heal gpu-0 gpu-1", "dray fleet heal gpu-0"),
        "fleet scale": ("dray fleet scale 4",),
        "backup": ("dray backup dray.backup", "dray backup --overwrite dray.backup"),
        "restore": ("dray restore --yes dray.backup",),
        "revoke": ("dray revoke alice",),
        "get": (
            "dray get devices",
            "dray get pods,resourceclaims -A -o wide",
            "dray get pods -l app=web -w",
            "dray get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
        ),
        "describe": (
            "dray describe pod train",
            "dray describe claim/train-gpu",
            "dray describe device gpu-0/gpu-0",
        ),
        "top": ("dray top", "dray top --once"),
        "events": ("dray events --for pod/train", "dray events -A --types=Warning -w"),
        "logs": (
            "dray logs -f train",
            "dray logs job/train --all-containers",
            "dray logs -l app=web --prefix --since=10m",
        ),
        "history device": (
            "dray history device gpu-0/gpu-0",
            "dray history device gpu-0 --at 14:02",
        ),
        "history claim": ("dray history claim train-gpu",),
        "history node": ("dray history node gpu-0 --since 2h",),
        "history user": ("dray history user ann -o json",),
        "api-resources": ("dray api-resources --api-group=resource.k8s.io",),
        "version": ("dray version",),
        "explain": (
            "dray explain pod/train",
            "dray explain -f claim.yaml",
            "dray explain resourceclaim.spec.devices",
        ),
        "lint": ("dray lint claim.yaml",),
        "cel": ("""dray cel 'device.driver == "gpu.example.com"' --against quickstart""",),
        "conformance": (
            'dray conformance --command "./driver --kubeconfig {kubeconfig} --node {node}"',
            "dray conformance --list",
        ),
        "plan defrag": (
            "dray plan defrag --free gpu-node-1",
            "dray plan defrag --for train.yaml",
            "dray plan defrag --for train.yaml --against snapshot.json -o json",
        ),
        "plan nodes": (
            "dray plan nodes -f train.yaml --add-type h100,l4",
            "dray plan nodes --add-type like:gpu-node-1",
            "dray plan nodes -f train.yaml --add-type machine.yaml --against snapshot.json",
        ),
        "plan capacity": (
            "dray plan capacity",
            "dray plan capacity -f train.yaml -o wide",
            "dray plan capacity --against h100 -o json",
        ),
        "plan replay": (
            "dray plan replay pod_list.csv --nodes node_list.csv --policy best-fit,fgd --seeds 10",
            "dray plan replay pod_list.csv.gz --departures --chart policies.svg",
            "dray plan replay scenario.json --policy upstream -o json --placements",
        ),
        "doctor": ("dray doctor", "dray doctor --fix"),
        "mcp": ("dray mcp --context staging",),
        "snapshot": ("dray snapshot > snapshot.json",),
        "apply": ("dray apply -f claim.yaml", "dray apply -f manifests/ -R"),
        "create": ("dray create -f claim.yaml",),
        "delete": (
            "dray delete pod train",
            "dray delete -f claim.yaml --ignore-not-found",
            "dray delete pods -l app=web --wait=false",
        ),
        "patch": ('dray patch deployment web --type=merge -p \'{"spec":{"replicas":2}}\'',),
        "label": ("dray label node gpu-0 zone=a", "dray label node gpu-0 zone-"),
        "wait": (
            "dray wait pod/train --for=condition=Ready --timeout=2m",
            "dray wait job/train --for=jsonpath='{.status.succeeded}'=1",
            "dray wait pod/train --for=delete",
        ),
        "exec": ("dray exec train -- nvidia-smi", "dray exec -it train -c main -- sh"),
        "attach": ("dray attach -it train",),
        "port-forward": (
            "dray port-forward pod/web 8080:80",
            "dray port-forward deployment/web :http",
        ),
        "apiserver": ("dray apiserver --listen 127.0.0.1:6443",),
        "scheduler": ("dray scheduler --kubeconfig scheduler.kubeconfig",),
        "record": ("dray record --context production --file production.db",),
        "exporter": ("dray exporter --kubeconfig reader.kubeconfig --listen 0.0.0.0:9410",),
        "controllers": ("dray controllers --kubeconfig controllers.kubeconfig",),
        "node": ("dray node --kubeconfig node.kubeconfig --name gpu-server",),
        "driver nvidia": ("dray driver nvidia --node gpu-server",),
        "driver new": (
            "dray driver new acme-npu",
            "dray driver new acme-npu --partitions --shared",
        ),
        "completion": ("source <(dray completion bash)",),
    }
)
"""Command lines by the command's words."""


def of_command(path: str, name: str) -> tuple[str, ...]:
    """Return the examples of a command by its path, such as `dray fleet fail`.

    A command that has a program of its own, such as kubectl-why, is found by its name.
    """
    return EXAMPLES.get(path.partition(" ")[2]) or EXAMPLES.get(name, ())
