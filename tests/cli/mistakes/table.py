"""Mistakes that people make in manifests, and the words with which commands answer them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAGE = HERE / "table.md"
FIX, UNSAFE, BY_HAND = ("--fix",), ("--fix", "--unsafe-fixes"), ()
TAINTED = "l4"
"""The fleet on which a DeviceTaintRule taints every device."""


class Answer(NamedTuple):
    """Words that a command has to say: the cause, and the correction."""

    cause: str
    fix: str


class Mistake(NamedTuple):
    name: str
    """Also of the manifest, and of the pod in it."""
    what: str
    rule: str
    lint: Answer
    options: tuple[str, ...] = FIX
    """The options with which lint corrects it; none if that is left to the author."""
    apply: Answer | None = None
    """Where apply says it in other words than lint."""
    explain: Answer | None = None
    """Where explain says it in other words than lint."""
    explain_fixes: bool = False
    """Whether `explain --fix` prints the corrected objects."""
    fleet: str = "h100"

    @property
    def text(self) -> str:
        return (HERE / "manifests" / f"{self.name}.yaml").read_text("utf-8")

    @property
    def apply_answer(self) -> Answer:
        return self.apply or self.lint

    @property
    def explain_answer(self) -> Answer:
        return self.explain or self.lint


def _down(path: str) -> str:
    return f"It belongs one level down: {path}"


_REQUEST = "spec.spec.devices.requests[0]"

KNOWN = (
    Mistake("class", "typo'd class", "missing-class",
            Answer("there is no DeviceClass gpu.nvidia.org", "Did you mean gpu.nvidia.com?"),
            explain=Answer("device class gpu.nvidia.org does not exist",
                           "fix: use class gpu.nvidia.com instead of gpu.nvidia.org"),
            explain_fixes=True),
    Mistake("domain", "wrong domain", "matches-nothing",
            Answer("none has productName", "The domain of productName is gpu.nvidia.com"),
            explain=Answer("`productName` exists on 0 of 16 devices in domain nvidia.com",
                           "fix: write `gpu.nvidia.com` instead of `nvidia.com`"),
            explain_fixes=True),
    Mistake("quantity", "quantity `>=`", "invalid-selector",
            Answer("no matching overload for '_>=_'", '.memory.compareTo(quantity("40Gi")) >= 0'),
            explain=Answer("found no matching overload for '_>=_'",
                           'memory.compareTo(quantity("40Gi")) >= 0` in selector 0'),
            explain_fixes=True),
    Mistake("memory-attribute", "memory as attribute", "matches-nothing",
            Answer("memory is a capacity", '.memory.compareTo(quantity("40Gi")) > 0'),
            explain=Answer("`memory` is a capacity on all",
                           'memory.compareTo(quantity("40Gi")) > 0` in selector 0'),
            explain_fixes=True),
    Mistake("old-version-exactly", "v1beta1 with `exactly`", "unknown-field",
            Answer("exactly exists since v1beta2", "Write apiVersion: resource.k8s.io/v1")),
    Mistake("version", "apiVersion v2", "unknown-version",
            Answer("resource.k8s.io/v2", "Write apiVersion: resource.k8s.io/v1")),
    Mistake("unused", "claim used by no container", "unused-claim",
            Answer("no container uses the claim gpu", "resources: {claims: [{name: gpu}]}"),
            explain=Answer("no container uses the claim gpu",
                           "fix: add `resources: {claims: [{name: gpu}]}` to container main"),
            explain_fixes=True),
    Mistake("unknown-claim", "unknown claim in container", "undeclared-claim",
            Answer('Not found: "gpus": must be one of the names in', "Did you mean gpu?")),
    Mistake("template-as-claim", "claimName names a template", "claim-or-template",
            Answer("is a ResourceClaimTemplate, not a ResourceClaim",
                   "Write resourceClaimTemplateName: template-as-claim"),
            explain=Answer("is a ResourceClaimTemplate, not a ResourceClaim",
                           "fix: write `resourceClaimTemplateName: template-as-claim`"),
            explain_fixes=True),
    Mistake("claim-as-template", "templateName names a claim", "claim-or-template",
            Answer("is a ResourceClaim, not a ResourceClaimTemplate",
                   "Write resourceClaimName: claim-as-template"),
            explain=Answer("is a ResourceClaim, not a ResourceClaimTemplate",
                           "fix: write `resourceClaimName: claim-as-template`"),
            explain_fixes=True),
    Mistake("too-many-for-a-node", "16 GPUs, nodes have 8", "does-not-fit",
            Answer("fewer than 16 devices", f"{_REQUEST}.exactly.count: 8"), UNSAFE,
            explain=Answer("fewer than 16 devices are of class gpu.nvidia.com",
                           "fix: request 8 instead of 16 in request gpu"),
            explain_fixes=True),
    Mistake("count-33", "count 33", "too-many-devices",
            Answer("a claim can hold at most 32", "Use several claims, or count: 32"), UNSAFE,
            explain=Answer("a claim can hold at most 32: use several claims",
                           "fix: request 8 instead of 33 in request gpu"),
            explain_fixes=True),
    Mistake("other-namespace", "claim in another namespace", "other-namespace",
            Answer("is in namespace kube-public, not default",
                   "Write metadata.namespace: kube-public in Pod other-namespace"),
            explain=Answer("one of that name exists in namespace kube-public",
                           "create the ResourceClaim in default, or the pod in kube-public")),
    Mistake("admin-access", "adminAccess without the label", "admin-access",
            Answer("resource.kubernetes.io/admin-access",
                   "dray label namespace admin-access resource.kubernetes.io/admin-access=true"),
            UNSAFE),
    Mistake("bracket", "unclosed bracket", "not-yaml",
            Answer("did not find expected ',' or ']'", "Close it with ] at the end of line 22.")),
    Mistake("tab", "tab", "not-yaml",
            Answer("indented with a tab; YAML allows spaces only", "8 spaces instead of each tab")),
    Mistake("request-twice", "duplicate request name", "invalid",
            Answer("Two requests have the name gpu", "Rename this one: name: gpu-2")),
    Mistake("object-twice", "the same object twice", "duplicate-object",
            Answer("is defined twice; the first time in", "Remove it: both say the same.")),
    Mistake("exactly-and-first-available", "exactly and firstAvailable", "invalid",
            Answer("exactly one of `exactly` or `firstAvailable` is required",
                   "To keep exactly: remove firstAvailable."), UNSAFE),
    Mistake("match-attribute", "matchAttribute that not all have", "does-not-fit",
            Answer("`nvlinkDomain` exists on 0 of", "remove spec.spec.devices.constraints"),
            UNSAFE,
            explain=Answer("`nvlinkDomain` exists on 0 of 16 devices",
                           "fix: drop the constraint matchAttribute gpu.nvidia.com/nvlinkDomain"),
            explain_fixes=True),
    Mistake("constraint-request", "constraint names an unknown request", "invalid",
            Answer("must be the name of a request", "Did you mean gpu?")),
    Mistake("toleration", "toleration missing", "does-not-fit",
            Answer("example.com/maintenance=planned:NoSchedule is not tolerated",
                   "[{key: example.com/maintenance, operator: Equal, value: planned, "
                   "effect: NoSchedule}]"), UNSAFE, fleet=TAINTED,
            explain=Answer("taint example.com/maintenance=planned:NoSchedule is not tolerated",
                           "fix: tolerate taint example.com/maintenance=planned:NoSchedule"),
            explain_fixes=True),
    Mistake("extended-resource", "`nvidia.com/gpus`", "unknown-extended-resource",
            Answer("no node and no DeviceClass provides nvidia.com/gpus",
                   "Did you mean nvidia.com/gpu?"),
            explain=Answer("no node and no DeviceClass provides the resource nvidia.com/gpus",
                           "fix: write `nvidia.com/gpu` instead of `nvidia.com/gpus`"),
            explain_fixes=True),
    Mistake("without-exactly", "v1 without `exactly`", "unknown-field",
            Answer("deviceClassName", _down(f"{_REQUEST}.exactly.deviceClassName"))),
    Mistake("inner-spec", "template without inner spec", "unknown-field",
            Answer("spec.devices", _down("spec.spec.devices"))),
    Mistake("equals-sign", "`=` for `==`", "invalid-selector",
            Answer("Equality is `==` in CEL.", 'productName == "NVIDIA H100 80GB HBM3"'),
            explain=Answer("request gpu: selector 0 does not compile",
                           'productName == "NVIDIA H100 80GB HBM3"` in selector 0'),
            explain_fixes=True),
    Mistake("model", '`== "H100"`', "matches-nothing",
            Answer('productName is "NVIDIA H100 80GB HBM3".',
                   'productName == "NVIDIA H100 80GB HBM3"'),
            explain=Answer("`productName` is NVIDIA H100 80GB HBM3 on 16",
                           "fix: write `NVIDIA H100 80GB HBM3` instead of `H100`"),
            explain_fixes=True),
    Mistake("version-as-text", "version compared with a string", "selector-error",
            Answer("driverVersion is a version.", 'compareTo(semver("570.0.0")) > 0'),
            explain=Answer("`driverVersion` is a version",
                           'compareTo(semver("570.0.0")) > 0` in selector 0'),
            explain_fixes=True),
    Mistake("missing-attribute", "attribute missing in the class's devices", "matches-nothing",
            Answer("none has linkSpeed", "They have: architecture, "), UNSAFE,
            explain=Answer("`linkSpeed` exists on 0 of 16 devices",
                           "fix: drop selector 0 of request gpu"),
            explain_fixes=True),
    Mistake("count-as-text", '`count: "2"`', "mistyped-field",
            Answer('"2" is text, not a whole number', "Write 2 without quotation marks")),
    Mistake("no-resource-claims", "no resourceClaims", "undeclared-claim",
            Answer("and the pod has none",
                   "[{name: gpu, resourceClaimTemplateName: no-resource-claims}]")),
    Mistake("capacity", "capacity larger than any device", "does-not-fit",
            Answer("100Gi is needed", "exactly.capacity.requests.memory: 40Gi"), UNSAFE,
            fleet="shared",
            explain=Answer("has 40Gi of 40Gi `memory` left, 100Gi is needed",
                           "fix: request 40Gi instead of 100Gi of `memory`"),
            explain_fixes=True),
    Mistake("node-selector", "nodeSelector without a node", "no-node",
            Answer("has the labels kubernetes.io/arch=amd46",
                   "Did you mean kubernetes.io/arch: amd64?"),
            explain=Answer("no node matches the pod's nodeSelector kubernetes.io/arch=amd46",
                           "fix: write `kubernetes.io/arch: amd64`"),
            explain_fixes=True),
    Mistake("kind-case", "kind in the wrong case", "unknown-kind",
            Answer("resourceclaimtemplate", "Did you mean ResourceClaimTemplate?")),
    Mistake("unknown-request", "container names an unknown request", "unknown-request",
            Answer("the claim gpu has no request gpus", "Did you mean gpu?"),
            explain=Answer("container main uses request gpus, which claim gpu does not have",
                           "fix: write request `gpu` instead of `gpus`"),
            explain_fixes=True),
)  # fmt: skip

FURTHER = (
    Mistake("indentation", "field beside `exactly:` instead of below it", "unknown-field",
            Answer("deviceClassName", _down(f"{_REQUEST}.exactly.deviceClassName"))),
    Mistake("requests-as-map", "one request without `-`", "mistyped-field",
            Answer("is an object, not a list", "begin the object with `- `")),
    Mistake("requests-by-name", "requests as a map of names", "mistyped-field",
            Answer("is an object, not a list", "Write a list of objects with a name")),
    Mistake("no-class", "no deviceClassName", "invalid",
            Answer("deviceClassName: Required value", "dray get deviceclasses"), BY_HAND),
    Mistake("class-field", "`deviceClass`", "unknown-field",
            Answer("deviceClass", "Did you mean deviceClassName?")),
    Mistake("expression-quotes", "text without quotation marks in CEL", "invalid-selector",
            Answer("undeclared reference to 'H100'", "Text is written in quotation marks."),
            explain=Answer("request gpu: selector 0 does not compile",
                           'productName == "NVIDIA H100 80GB HBM3"` in selector 0'),
            explain_fixes=True),
    Mistake("yaml-quotes", "an expression that begins with a quotation mark", "not-yaml",
            Answer("did not find expected key", "Put the value in quotation marks")),
    Mistake("quantity-unit", "GB in a quantity", "selector-error",
            Answer("Units of quantities have no B", 'quantity("40Gi")'),
            explain=Answer("quantities must match",
                           'quantity("40G")) >= 0` in selector 0'),
            explain_fixes=True),
    Mistake("bare-quantity", "a quantity without quotation marks", "invalid-selector",
            Answer("mismatched input 'Gi'", '.memory.compareTo(quantity("40Gi")) >= 0'),
            explain=Answer("request gpu: selector 0 does not compile",
                           'memory.compareTo(quantity("40Gi")) >= 0` in selector 0'),
            explain_fixes=True),
    Mistake("memory-unit", "GB in limits", "malformed-field",
            Answer("quantities must match", "Did you mean 1Gi (powers of 1024) or 1G")),
    Mistake("all-with-count", "allocationMode All with count", "invalid",
            Answer("must not be specified when allocationMode is 'All'", "Remove count")),
    Mistake("attribute-without-domain", "matchAttribute without domain", "invalid",
            Answer("must be a domain and a name", "Did you mean gpu.nvidia.com/productName?")),
    Mistake("claims-in-container", "resourceClaims in the container", "unknown-field",
            Answer("resourceClaims", "It belongs further up: spec.resourceClaims")),
    Mistake("claims-beside-resources", "claims beside resources", "unknown-field",
            Answer("claims", _down("spec.containers[0].resources.claims"))),
    Mistake("init-container", "unknown claim in an init container", "undeclared-claim",
            Answer('Not found: "gpus"', "Did you mean gpu?")),
    Mistake("group", "typo in the API group", "unknown-kind",
            Answer("resources.k8s.io", "Did you mean apiVersion: resource.k8s.io/v1?")),
    Mistake("no-api-version", "no apiVersion", "no-type",
            Answer("apiVersion", "Add apiVersion: resource.k8s.io/v1")),
    Mistake("plural-kind", "kind in the plural", "unknown-kind",
            Answer("ResourceClaimTemplates", "Did you mean ResourceClaimTemplate?")),
    Mistake("word-operators", "`and` in CEL", "invalid-selector",
            Answer("And, or and not are `&&`, `||` and `!`", '== "gpu.nvidia.com" && device.'),
            explain=Answer("request gpu: selector 0 does not compile",
                           '== "gpu.nvidia.com" && device.'),
            explain_fixes=True),
    Mistake("no-device", "no `device.` in CEL", "invalid-selector",
            Answer("A selector reads `device`.", 'device.attributes["gpu.nvidia.com"].type'),
            explain=Answer("request gpu: selector 0 does not compile",
                           'write `device.attributes["gpu.nvidia.com"].type == "gpu"`'),
            explain_fixes=True),
    Mistake("function-case", "`startswith`", "invalid-selector",
            Answer("undeclared reference to 'startswith'", "The function is startsWith()."),
            explain=Answer("request gpu: selector 0 does not compile",
                           'productName.startsWith("NVIDIA")` in selector 0'),
            explain_fixes=True),
    Mistake("slash-attribute", "domain and name in one key", "invalid-selector",
            Answer("The domain is the key", 'device.attributes["gpu.nvidia.com"].productName'),
            explain=Answer("request gpu: selector 0 does not compile",
                           'device.attributes["gpu.nvidia.com"].productName == '),
            explain_fixes=True),
    Mistake("allocation-mode", "allocationMode in the wrong case", "invalid",
            Answer('Unsupported value: "exactCount"', "Did you mean ExactCount?")),
    Mistake("upper-case-name", "a name in upper case", "invalid",
            Answer('Invalid value: "GPU"', "Did you mean gpu?")),
    Mistake("job-claims", "resourceClaims beside the template of a job", "unknown-field",
            Answer("resourceClaims",
                   "It belongs 2 levels down: spec.template.spec.resourceClaims")),
    Mistake("template-name", "typo in the name of the template", "missing-claim",
            Answer("there is no ResourceClaimTemplate template-nam",
                   "Did you mean template-name?"),
            explain=Answer("there is no ResourceClaimTemplate template-nam in namespace default",
                           "fix: write `resourceClaimTemplateName: template-name`"),
            explain_fixes=True),
    Mistake("template-field", "`resourceClaimTemplate`", "unknown-field",
            Answer("resourceClaimTemplate", "Did you mean resourceClaimTemplateName?")),
    Mistake("selector-map", "selectors without `-`", "mistyped-field",
            Answer("is an object, not a list", "begin the object with `- `")),
    Mistake("expression-without-cel", "expression without `cel`", "unknown-field",
            Answer("expression", _down(f"{_REQUEST}.exactly.selectors[0].cel.expression"))),
    Mistake("colon", "no space after a colon", "mistyped-field",
            Answer("is text, not an object", "Write a space after the colon")),
    Mistake("open-expression", "unclosed bracket in CEL", "invalid-selector",
            Answer("A `[` is not closed.", 'device.attributes["gpu.nvidia.com"].type == "gpu"'),
            explain=Answer("request gpu: selector 0 does not compile",
                           'write `device.attributes["gpu.nvidia.com"].type == "gpu"`'),
            explain_fixes=True),
    Mistake("node-selector-type", "a list as the value of a label", "mistyped-field",
            Answer('["linux"] is a list, not text', "Write it without the list")),
    Mistake("cpu", "more CPU than a node has", "no-node",
            Answer("Insufficient cpu", "Request less cpu: the most on one node is 192."), BY_HAND,
            explain=Answer("5000 is requested, at most 192 is left",
                           "Request at most 192 of cpu")),
)  # fmt: skip


def page() -> str:
    """Return the table of answers. The tests beside it see that each of them is given."""
    lines = [
        "# Mistakes in manifests, and how they are answered",
        "",
        "Written by the tests: 2/2 means that the words for the cause and for the correction are",
        "there, and that the corrected pod runs (except where the correction is left to you).",
        "",
        "| # | mistake | rule | lint | apply | explain | corrected by | and by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number, row in enumerate((*KNOWN, *FURTHER), 1):
        also = "`dray explain --fix`" if row.explain_fixes else ""
        by = " ".join(("`dray lint", *row.options)) + "`" if row.options else "you"
        lines.append(f"| {number} | {row.what} | {row.rule} | 2/2 | 2/2 | 2/2 | {by} | {also} |")
    return "\n".join(lines) + "\n"
