"""The rules of lint: their names, severities and explanations."""

from __future__ import annotations

import enum
from typing import NamedTuple

from dray.cli.command_errors import WrongUsage
from dray.explain.selectors import spelling


class CheckStage(enum.IntEnum):
    """The order of the checks: an object that fails one may hide findings of later ones."""

    SYNTAX = 0
    TYPE = 1
    FIELDS = 2
    VALUES = 3
    REFERENCES = 4
    SCHEDULING = 5


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Rule(NamedTuple):
    """One rule."""

    name: str
    severity: Severity
    stage: CheckStage
    summary: str
    meaning: str
    remedy: str
    hides: bool = False
    """Whether the content was not checked before the fault is corrected."""
    is_optional: bool = False
    """Whether it is about another way to write something, not about a mistake."""

    @property
    def help(self) -> str:
        return f"{self.meaning} {self.remedy}"


_E, _W = Severity.ERROR, Severity.WARNING

_ALL = (
    Rule(
        "not-yaml",
        _E,
        CheckStage.SYNTAX,
        "The file is not YAML.",
        "The parser stops at this line, so nothing after it is checked.",
        "Indent with spaces, close every bracket and quotation mark, and write a space after the "
        "colon of a key.",
        hides=True,
    ),
    Rule(
        "not-an-object",
        _E,
        CheckStage.TYPE,
        "A document is not an object.",
        "Every document of a manifest is one object with apiVersion and kind.",
        "Remove the document, or separate documents with a line `---`.",
        hides=True,
    ),
    Rule(
        "no-type",
        _E,
        CheckStage.TYPE,
        "An object has no apiVersion or no kind.",
        "Without both, no server knows what the object is.",
        "Add the missing field at the top of the object.",
        hides=True,
    ),
    Rule(
        "unknown-kind",
        _E,
        CheckStage.TYPE,
        "The API group has no such kind.",
        "Kinds are written in CamelCase and in the singular, such as ResourceClaimTemplate.",
        "Correct the kind or the group in apiVersion.",
        hides=True,
    ),
    Rule(
        "unknown-version",
        _E,
        CheckStage.TYPE,
        "The kind is not served in this apiVersion.",
        "A server rejects objects of versions that it does not serve.",
        "Write an apiVersion that is served; the newest one is best.",
        hides=True,
    ),
    Rule(
        "unserved-kind",
        _E,
        CheckStage.REFERENCES,
        "The server does not serve the kind, or not in this apiVersion.",
        "Older servers lack kinds, or have them only with a feature gate. Needs --against.",
        "Use a version that is served, turn on the feature gate, or leave the object out.",
    ),
    Rule(
        "dropped-field",
        _W,
        CheckStage.REFERENCES,
        "The server drops the field without an error.",
        "The feature gate of the field is off by default in the version of the server. The object "
        "is stored without it and means something else. Needs --against.",
        "Turn on the feature gate, or remove the field.",
    ),
    Rule(
        "outdated-version",
        _W,
        CheckStage.VALUES,
        "The apiVersion is outdated.",
        "Newer servers stop serving old versions of resource.k8s.io.",
        "Write the newest version; `dray lint --fix` rewrites the object.",
    ),
    Rule(
        "fleet",
        _E,
        CheckStage.TYPE,
        "A description of a simulated fleet is wrong.",
        "`dray up --fleet FILE` would refuse it.",
        "Compare it with one that works: `dray fleet show h100`.",
    ),
    Rule(
        "unknown-field",
        _E,
        CheckStage.FIELDS,
        "A field does not exist at this place.",
        "The server rejects it, or drops it with a warning. Often the name is misspelt or the "
        "indentation puts the field one level too high or too low.",
        "Correct the name or move the field.",
        hides=True,
    ),
    Rule(
        "mistyped-field",
        _E,
        CheckStage.FIELDS,
        "A field has a value of the wrong type.",
        "For example text in quotation marks where a number is expected, or an object where a list "
        "is expected.",
        "Write a value of the expected type.",
        hides=True,
    ),
    Rule(
        "malformed-field",
        _E,
        CheckStage.FIELDS,
        "A quantity or a time cannot be read.",
        "Quantities have units such as Ki, Mi, Gi (powers of 1024) or k, M, G (powers of 1000).",
        "Correct the unit.",
    ),
    Rule(
        "repeated-field",
        _E,
        CheckStage.FIELDS,
        "A field is written twice in one object.",
        "Only one of the two values counts, and servers reject the object in strict mode.",
        "Remove one of them.",
    ),
    Rule(
        "partition-request",
        _W,
        CheckStage.FIELDS,
        "partitionRequest is understood by dray's API server only.",
        "Other servers reject the field.",
        "Elsewhere, request a class of partitions, or one of several with firstAvailable.",
    ),
    Rule(
        "invalid",
        _E,
        CheckStage.VALUES,
        "The API server would reject the object.",
        "The message is the server's own.",
        "Correct the field that it names.",
    ),
    Rule(
        "invalid-selector",
        _E,
        CheckStage.VALUES,
        "A CEL expression does not compile, or costs too much.",
        "The API server rejects the claim or class.",
        "Correct the expression; `dray cel EXPRESSION` tries one.",
    ),
    Rule(
        "duplicate-object",
        _E,
        CheckStage.REFERENCES,
        "The same object is defined twice.",
        "The second definition overwrites the first one when both are applied.",
        "Remove one of them, or give it another name.",
    ),
    Rule(
        "claim-or-template",
        _E,
        CheckStage.REFERENCES,
        "A pod names a template as a claim, or a claim as a template.",
        "The pod would wait for an object that does not exist.",
        "Use resourceClaimName for claims and resourceClaimTemplateName for templates.",
    ),
    Rule(
        "other-namespace",
        _E,
        CheckStage.REFERENCES,
        "A pod and its claim are in different namespaces.",
        "A pod can use claims and templates of its own namespace only.",
        "Set the same metadata.namespace in both.",
    ),
    Rule(
        "missing-claim",
        _W,
        CheckStage.REFERENCES,
        "The claim or template of a pod does not exist.",
        "The pod waits until it is created.",
        "Correct the name, or create the object.",
    ),
    Rule(
        "unused-claim",
        _W,
        CheckStage.REFERENCES,
        "No container uses a claim of the pod.",
        "The devices are allocated to the pod, but no container gets them.",
        "Add the claim to resources.claims of the container that needs it.",
    ),
    Rule(
        "undeclared-claim",
        _E,
        CheckStage.REFERENCES,
        "A container names a claim that the pod does not have.",
        "resources.claims of a container names entries of resourceClaims of the pod.",
        "Correct the name, or add the claim to resourceClaims of the pod.",
    ),
    Rule(
        "unknown-request",
        _E,
        CheckStage.REFERENCES,
        "A container names a request that the claim does not have.",
        "The container would get no devices, or the pod would not start.",
        "Correct the name, or leave request out to get all devices of the claim.",
    ),
    Rule(
        "too-many-devices",
        _W,
        CheckStage.REFERENCES,
        "A claim requests more devices than a claim can hold.",
        "The claim can be created, but never allocated.",
        "Use several claims.",
    ),
    Rule(
        "toleration-without-effect",
        _W,
        CheckStage.REFERENCES,
        "A toleration without effect does not prevent eviction.",
        "The scheduler accepts it for every effect, eviction for none.",
        "Add a toleration with effect NoExecute if pods are to stay.",
    ),
    Rule(
        "admin-access",
        _W,
        CheckStage.REFERENCES,
        "adminAccess needs a label on the namespace.",
        "The server rejects such claims in namespaces without the label.",
        "Label the namespace.",
    ),
    Rule(
        "missing-class",
        _W,
        CheckStage.REFERENCES,
        "The DeviceClass does not exist.",
        "The claim cannot be allocated until the class is created.",
        "Correct deviceClassName; `dray get deviceclasses` shows the classes.",
    ),
    Rule(
        "matches-nothing",
        _W,
        CheckStage.REFERENCES,
        "A selector matches no device.",
        "No device of the class has the attributes or the values that it asks for.",
        "Correct the selector; `dray cel EXPRESSION` shows the values that exist.",
    ),
    Rule(
        "selector-error",
        _W,
        CheckStage.REFERENCES,
        "A selector fails when it is evaluated.",
        "An attribute is missing or has another type than the value it is compared with. "
        "Allocation fails on every node with such a device.",
        "Compare values of one type, and test with has() whether an attribute exists.",
    ),
    Rule(
        "extended-resource",
        _W,
        CheckStage.REFERENCES,
        "An extended resource could be a claim.",
        "A claim can select devices by model and memory, an extended resource cannot.",
        "Use a ResourceClaimTemplate if you need that; otherwise ignore this rule.",
        is_optional=True,
    ),
    Rule(
        "unknown-extended-resource",
        _W,
        CheckStage.REFERENCES,
        "No node and no DeviceClass provides an extended resource.",
        "The pod cannot be scheduled.",
        "Correct the name of the resource.",
    ),
    Rule(
        "does-not-fit",
        _W,
        CheckStage.SCHEDULING,
        "No node can serve the claims, even if no device was in use.",
        "The scheduling decision was made for a cluster in which nothing is in use.",
        "Request less, or other devices; `dray explain -f FILE` shows every step.",
    ),
    Rule(
        "no-node",
        _W,
        CheckStage.SCHEDULING,
        "No node can run the pod, even if it was empty.",
        "nodeSelector, affinity, taints or requested resources exclude every node.",
        "Change the fields that exclude the nodes.",
    ),
)
RULES = {rule.name: rule for rule in sorted(_ALL)}


def named(name: str) -> Rule:
    """Return a rule. Raises WrongUsage for an unknown name."""
    if name not in RULES:
        close = spelling.similar(name, RULES)
        advice = f"Did you mean {close[0]}?" if close else "See them all: dray lint --rules"
        raise WrongUsage(f"there is no rule {name}", advice)
    return RULES[name]
