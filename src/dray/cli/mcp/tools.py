"""The tools of `dray mcp`: what the commands of the same names print with `-o json`.

The cluster is that of the command line: a caller cannot choose another one, nor name a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from dray.cli.command_errors import WrongUsage
from dray.cli.doctor import command as doctor_command
from dray.cli.explain import names, output
from dray.cli.explain.explain_run import ExplainRun
from dray.cli.history import answers as history_answers
from dray.cli.history.answers import HistoryQuestion
from dray.cli.inputs import cluster_objects, published_devices
from dray.cli.insight import cel as cel_command
from dray.cli.lint import command as lint_command
from dray.cli.lint import reports
from dray.cli.lint.findings import Finding
from dray.cli.session import connection
from dray.cli.session.connection import Target
from dray.cli.verbs import devices as devices_command
from dray.cli.verbs.listing import GetRequest

MANIFEST = "<manifest>"
"""The name of a manifest in findings; no file has it."""
MAX_MANIFEST = 1_000_000
MAX_NAMES = 100


@dataclass(frozen=True, slots=True)
class Source:
    """The cluster that the tools read, or what `--against` names."""

    target: Target
    against: str = ""


class ToolAnswer(NamedTuple):
    """A document, and lines about what could not be read."""

    document: Any
    notes: Sequence[str] = ()


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a tool; those that no field has are refused."""


Manifest = Annotated[str, Meta(description="YAML or JSON of objects.", max_length=MAX_MANIFEST)]
Name = Annotated[str, Meta(max_length=600)]
ObjectReference = Annotated[str, Meta(pattern=r"^[^/]+/[^/]+$", max_length=600)]
AgainstCluster = Annotated[
    bool, Meta(description="Whether to read the cluster too; without it, only what is given.")
]


class ExplainArguments(Arguments, frozen=True):
    objects: Annotated[
        list[ObjectReference],
        Meta(
            description="TYPE/NAME of pods, claims, templates, deployments, statefulsets, "
            "daemonsets, replicasets, jobs or namespaces, such as pod/train.",
            max_length=MAX_NAMES,
        ),
    ] = []
    namespace: Annotated[Name, Meta(description="Of the objects. Alone: everything in it.")] = ""
    all_namespaces: Annotated[bool, Meta(description="Everything in the cluster.")] = False
    manifest: Manifest = ""


def explain(source: Source, arguments: ExplainArguments) -> ToolAnswer:
    texts = _texts(arguments.manifest)
    is_named = bool(arguments.objects or texts)
    if arguments.all_namespaces and (is_named or arguments.namespace):
        raise WrongUsage("all_namespaces explains everything; leave out the rest, or it")
    if not is_named and not arguments.namespace and not arguments.all_namespaces:
        raise WrongUsage("give objects, a manifest, a namespace or all_namespaces")
    target = dataclasses.replace(
        source.target,
        namespace=""
        if arguments.all_namespaces
        else arguments.namespace or source.target.namespace,
        all_namespaces=arguments.all_namespaces,
    )
    notes: list[str] = []
    named = names.parse_names(arguments.objects)
    run = ExplainRun(target, named, texts, source.against, notes.append)
    if invalid := run.invalid():
        return ToolAnswer(_findings(invalid))
    return ToolAnswer(output.document(run.explained(is_whole=not is_named)), notes)


class LintArguments(Arguments, frozen=True):
    manifest: Manifest
    against_cluster: AgainstCluster = True


def lint(source: Source, arguments: LintArguments) -> ToolAnswer:
    objects = None
    if arguments.against_cluster:
        objects = cluster_objects.load(source.against, source.target)
    linter = lint_command.linter_for(source.target, objects)
    return ToolAnswer(_findings(linter.check(_texts(arguments.manifest)).findings))


class DevicesArguments(Arguments, frozen=True):
    names: Annotated[
        list[Name],
        Meta(description="POOL/DEVICE, POOL, DEVICE or NODE; all devices without.", max_length=100),
    ] = []
    attributes: Annotated[
        Name, Meta(description="A label selector over attributes, such as architecture=Hopper.")
    ] = ""
    fields: Annotated[
        Name,
        Meta(
            description="A field selector over driver, pool, name, node, state, model, "
            "partitionOf, tainted, unhealthy, attributes.NAME and capacity.NAME."
        ),
    ] = ""


def devices(source: Source, arguments: DevicesArguments) -> ToolAnswer:
    if source.against:
        objects = cluster_objects.load(source.against, source.target)
        found = published_devices.of(objects)
    else:
        found, objects = connection.run(source.target, published_devices.read)
    request = GetRequest(
        words=("devices", *arguments.names),
        label_selector=arguments.attributes,
        field_selector=arguments.fields,
    )
    chosen = devices_command.chosen(found, request)
    return ToolAnswer(devices_command.document(chosen), published_devices.limits(objects))


class HistoryArguments(Arguments, frozen=True):
    device: Annotated[Name, Meta(description="NODE/DEVICE, or DRIVER/POOL/DEVICE.")]
    at: Annotated[Name, Meta(description="Only at this time: 14:02, or 2026-11-15T14:02:00Z.")] = ""


def history(source: Source, arguments: HistoryArguments) -> ToolAnswer:
    if source.against:
        raise WrongUsage("history needs a cluster; this server was started with --against")
    question = HistoryQuestion("device", arguments.device, at=arguments.at)
    return ToolAnswer(history_answers.answer(source.target, question).document())


def doctor(source: Source, _arguments: Arguments) -> ToolAnswer:
    found, limits = doctor_command.examined(source.target, source.against)
    chosen = cluster_objects.command_options(source.against, source.target)
    return ToolAnswer(doctor_command.documents(found, chosen), limits)


class CelArguments(Arguments, frozen=True):
    expression: Annotated[str, Meta(description="A selector.", max_length=MAX_MANIFEST)]
    against_cluster: AgainstCluster = True


def cel(source: Source, arguments: CelArguments) -> ToolAnswer:
    objects = None
    if arguments.against_cluster:
        objects = cluster_objects.load(source.against, source.target)
    return ToolAnswer(cel_command.report_on(arguments.expression, objects))


def _findings(found: Sequence[Finding]) -> list[dict[str, Any]]:
    return reports.documents(reports.Report.of(found).findings)


def _texts(manifest: str) -> list[tuple[str, str]]:
    return [(MANIFEST, manifest)] if manifest else []


class ReadingTool(NamedTuple):
    """A function with the arguments that it accepts."""

    function: Callable[[Source, Any], ToolAnswer]
    arguments: type[Arguments]
    description: str


TOOLS: Mapping[str, ReadingTool] = {
    "explain": ReadingTool(
        explain,
        ExplainArguments,
        "Explain why pods and claims wait or fail, and what would help. "
        "With a manifest: whether its pods and claims would fit.",
    ),
    "lint": ReadingTool(lint, LintArguments, "Find mistakes in a manifest and their corrections."),
    "devices": ReadingTool(
        devices, DevicesArguments, "List devices with their state, attributes, taints and holders."
    ),
    "history": ReadingTool(history, HistoryArguments, "Show which claims held a device, and when."),
    "doctor": ReadingTool(
        doctor, Arguments, "Find what is wrong with nodes, devices, drivers and claims."
    ),
    "cel": ReadingTool(
        cel, CelArguments, "Check a CEL selector: types, cost, and which devices it matches."
    ),
}
