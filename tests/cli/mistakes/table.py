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
    is_explained: bool = True
    """Whether explain has something to say: not if the pod runs nevertheless."""

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
                           "fix: copy ResourceClaim other-namespace from namespace kube-public to "
                           "default"),
            explain_fixes=True),
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
            Answer("extraneous input 'Gi'", '.memory.compareTo(quantity("40Gi")) >= 0'),
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

TRIED = (
    Mistake("affinity-operator", "`in` as operator of an affinity", "invalid",
            Answer("not a valid selector operator", "Did you mean In?")),
    Mistake("alpha3", "apiVersion v1alpha3", "unknown-version",
            Answer("not served as resource.k8s.io/v1alpha3",
                   "Write apiVersion: resource.k8s.io/v1")),
    Mistake("old-alpha", "resourceClassName of v1alpha2", "unknown-version",
            Answer("not served as resource.k8s.io/v1alpha2",
                   "Write apiVersion: resource.k8s.io/v1")),
    Mistake("class-old-kind", "ResourceClass", "unknown-kind",
            Answer("has no kind ResourceClass", "Write kind: DeviceClass")),
    Mistake("old-source", "`source` in resourceClaims", "unknown-field",
            Answer("resourceClaims[0].source", "write the fields below it in its place")),
    Mistake("capacity-name", "a capacity that devices do not have", "does-not-fit",
            Answer("`gpuMemory` exists on 0 of 1 device", "request 10Gi of `memory`"), UNSAFE,
            explain=Answer("`gpuMemory` exists on 0 of 1 device",
                           "fix: request 10Gi of `memory` instead of `gpuMemory`"),
            explain_fixes=True, fleet="shared"),
    Mistake("capacity-no-requests", "capacity without `requests`", "unknown-field",
            Answer("capacity.memory", _down(f"{_REQUEST}.exactly.capacity.requests.memory")),
            fleet="shared"),
    Mistake("capacity-limits", "`resources` in a request", "unknown-field",
            Answer("exactly.resources", "Did you mean capacity?"), fleet="shared"),
    Mistake("claim-used-twice", "one claim twice in a container", "invalid",
            Answer('Duplicate value: "gpu"', "Remove it: it says the same")),
    Mistake("claim-with-template-spec", "a claim with the inner spec of a template",
            "unknown-field",
            Answer("spec.spec", "There is no spec here: write the fields below it")),
    Mistake("claims-as-text", "names as claims of a container", "mistyped-field",
            Answer('"gpu" is text, not an object', "Write an object: name: gpu")),
    Mistake("claims-in-limits", "claims below limits", "malformed-field",
            Answer("resources.limits.claims", "It belongs one level up, beside limits"),
            apply=Answer("quantities must match", "It belongs one level up, beside limits")),
    Mistake("claims-requests-plural", "`requests` of a container's claim", "unknown-field",
            Answer("claims[0].requests", "Did you mean request?")),
    Mistake("class-expression", "text as `cel`", "mistyped-field",
            Answer("is text, not an object", "Write an object: expression: ")),
    Mistake("class-selector-text", "text as a selector", "mistyped-field",
            Answer("is text, not an object", "Write an object: cel: ")),
    Mistake("class-kind", "a class with its kind", "invalid",
            Answer('Invalid value: "DeviceClass/gpu.nvidia.com"',
                   "Did you mean gpu.nvidia.com?")),
    Mistake("class-short", "half the name of a class", "missing-class",
            Answer("there is no DeviceClass gpu in", "Did you mean gpu.nvidia.com?"),
            explain=Answer("device class gpu does not exist",
                           "fix: use class gpu.nvidia.com instead of gpu"),
            explain_fixes=True),
    Mistake("class-matches-nothing", "a class of a driver that does not exist",
            "matches-nothing",
            Answer("spec.selectors[0].cel.expression: matches none of",
                   "The driver is gpu.nvidia.com."),
            explain=Answer("no device is of class class-matches-nothing",
                           "fix: write `gpu.nvidia.com` instead of `nvidia.com`"),
            explain_fixes=True),
    Mistake("driver-name", "the driver in a selector", "matches-nothing",
            Answer("matches none of the 16 devices", "The driver is gpu.nvidia.com."),
            explain=Answer("no device matches selector 0",
                           "fix: write `gpu.nvidia.com` instead of `nvidia.com`"),
            explain_fixes=True),
    Mistake("config-text", "parameters as text", "invalid",
            Answer("must be a valid JSON object", "Write an object, not text.")),
    Mistake("constraint-subrequest", "a constraint with a misspelt alternative", "invalid",
            Answer('Invalid value: "gpu/larg"', "Did you mean gpu/large?")),
    Mistake("contains-case", "`contains` in another case", "matches-nothing",
            Answer('productName is "NVIDIA H100 80GB HBM3".', 'contains("H100")'),
            explain=Answer("no device matches selector 0", "fix: write `H100` instead of `h100`"),
            explain_fixes=True),
    Mistake("count-fraction", "`count: 1.5`", "mistyped-field",
            Answer("1.5 is a number, not a whole number", "Write count: 1"), UNSAFE),
    Mistake("count-negative", "`count: -1`", "invalid",
            Answer("must be greater than zero", "Write count: 1, or allocationMode: All"), UNSAFE),
    Mistake("count-word", "`count: All`", "mistyped-field",
            Answer('"All" is text, not a whole number', "Write allocationMode: All")),
    Mistake("deployment-version", "a Deployment of extensions/v1beta1", "unknown-kind",
            Answer("extensions has no kind Deployment", "Did you mean apiVersion: apps/v1?")),
    Mistake("devices-plural", "`devices.` in CEL", "invalid-selector",
            Answer("undeclared reference to 'devices'", "A selector reads `device`."),
            explain=Answer("request gpu: selector 0 does not compile",
                           'write `device.attributes["gpu.nvidia.com"].type == "gpu"`'),
            explain_fixes=True),
    Mistake("dot-domain", "a domain without brackets", "matches-nothing",
            Answer("none has nvidia", "A domain is a key in brackets."),
            explain=Answer("nothing is published of domain gpu",
                           'write `device.attributes["gpu.nvidia.com"].type == "gpu"`'),
            explain_fixes=True),
    Mistake("no-domain", "an attribute without domain", "invalid-selector",
            Answer("found no matching overload for '_==_'",
                   "An attribute is named with its domain."),
            explain=Answer("request gpu: selector 0 does not compile",
                           'write `device.attributes["gpu.nvidia.com"].productName == '),
            explain_fixes=True),
    Mistake("trailing-and", "`&&` at the end", "invalid-selector",
            Answer("mismatched input '<EOF>'", "Nothing follows the last operator."),
            explain=Answer("request gpu: selector 0 does not compile",
                           'write `device.attributes["gpu.nvidia.com"].type == "gpu"`'),
            explain_fixes=True),
    Mistake("pattern", "`*` in a regular expression", "invalid-selector",
            Answer("invalid matches argument", "a part of a text is found with contains()"),
            explain=Answer("request gpu: selector 0 does not compile",
                           'productName.contains("H100")` in selector 0'),
            explain_fixes=True),
    Mistake("semver-operator", "`>=` on versions", "invalid-selector",
            Answer("found no matching overload for '_>=_'", "are compared with compareTo()"),
            explain=Answer("request gpu: selector 0 does not compile",
                           'compareTo(semver("550.0.0")) >= 0` in selector 0'),
            explain_fixes=True),
    Mistake("list-as-text", "`in` with one text", "invalid-selector",
            Answer("found no matching overload for '@in'",
                   "one text is compared with `==`"),
            explain=Answer("request gpu: selector 0 does not compile",
                           'productName == "NVIDIA H100 80GB HBM3"` in selector 0'),
            explain_fixes=True),
    Mistake("80gi", "80Gi of an 80 GB GPU", "matches-nothing",
            Answer("The largest memory is 81559Mi.", 'quantity("81559Mi")'), UNSAFE,
            explain=Answer("`memory`: the largest is 81559Mi",
                           "fix: write `81559Mi` instead of `80Gi`"),
            explain_fixes=True),
    Mistake("env-map", "environment variables as a map", "mistyped-field",
            Answer("is an object, not a list", "objects with name and value")),
    Mistake("first-available-exactly", "`exactly` in firstAvailable", "unknown-field",
            Answer("firstAvailable[0].exactly", "There is no exactly here")),
    Mistake("first-available-admin", "adminAccess in firstAvailable", "unknown-field",
            Answer("firstAvailable[0].adminAccess", "Alternatives cannot have adminAccess"),
            UNSAFE),
    Mistake("first-available-no-name", "alternatives without names", "invalid",
            Answer("firstAvailable[0].name: Invalid value", "Add name: alternative-1")),
    Mistake("subrequest-name", "an alternative in a container's claim", "invalid",
            Answer('Invalid value: "gpu/larg"', "A container names the request")),
    Mistake("gpu-fraction", "half a GPU as extended resource", "invalid",
            Answer("must be an integer", "use a claim with capacity.requests"), UNSAFE),
    Mistake("gpu-no-domain", "`gpu` as extended resource", "invalid",
            Answer("must be a standard resource", "Did you mean nvidia.com/gpu?"), UNSAFE),
    Mistake("gpu-requests-only", "a GPU without limits", "invalid",
            Answer("Limit must be set", "Write the same in limits: {nvidia.com/gpu: 1}")),
    Mistake("helm", "a template that is not rendered", "not-yaml",
            Answer("not YAML", "render it first, and check the result"), BY_HAND),
    Mistake("job-restart", "a Job without restartPolicy", "invalid",
            Answer("restartPolicy: Required value", "Add restartPolicy: Never"), UNSAFE),
    Mistake("nbsp", "a no-break space", "unknown-field",
            Answer("unknown field", "indented with a no-break space")),
    Mistake("no-separator", "two objects without `---`", "repeated-field",
            Answer('duplicate field "apiVersion"', "write --- before line 12")),
    Mistake("short-separator", "`--` between objects", "not-yaml",
            Answer("could not find expected ':'", "a line of three hyphens")),
    Mistake("node-name", "nodeName beside claims", "node-name",
            Answer("the scheduler is bypassed",
                   "Write nodeSelector: {kubernetes.io/hostname: h100-0}"),
            explain=Answer("nodeName: h100-0 bypasses the scheduler",
                           "Create the pod without nodeName")),
    Mistake("pod-claim-no-name", "a pod's claim without name", "invalid",
            Answer("resourceClaims[0].name: Required value", "Add name: gpu")),
    Mistake("pod-with-template", "a pod with a template", "unknown-field",
            Answer("spec.template", "There is no template here")),
    Mistake("request-no-name", "a request without name", "invalid",
            Answer("requests[0].name: Invalid value", "Add name: gpu")),
    Mistake("root-domain", "pcieRoot in the driver's domain", "does-not-fit",
            Answer("in resource.kubernetes.io on all",
                   "write `resource.kubernetes.io/pcieRoot`"), UNSAFE,
            explain=Answer("in resource.kubernetes.io on all",
                           "fix: write `resource.kubernetes.io/pcieRoot`"),
            explain_fixes=True),
    Mistake("template-kind-prefix", "a template with its namespace", "invalid",
            Answer('Invalid value: "default/template-kind-prefix"',
                   "Did you mean template-kind-prefix?")),
    Mistake("template-ref", "a reference to a template", "unknown-field",
            Answer("resourceClaimTemplateRef",
                   "Did you mean resourceClaimTemplateName: template-ref?")),
    Mistake("toleration-exists-value", "Exists with a value", "invalid",
            Answer("must be empty for operator `Exists`", "Write operator: Equal"),
            fleet=TAINTED),
    Mistake("toleration-of-pod", "a device's taint tolerated by the pod", "does-not-fit",
            Answer("example.com/maintenance=planned:NoSchedule is not tolerated",
                   "exactly.tolerations: [{key: example.com/maintenance"), UNSAFE,
            explain=Answer("taint example.com/maintenance=planned:NoSchedule is not tolerated",
                           "fix: tolerate taint example.com/maintenance=planned:NoSchedule"),
            explain_fixes=True, fleet=TAINTED),
    Mistake("exported", "an object with uid and resourceVersion", "exported-object",
            Answer("was set by a server", "Remove metadata.resourceVersion and metadata.uid."),
            apply=Answer("resourceVersion should not be set",
                         "Remove metadata.resourceVersion and metadata.uid.")),
    Mistake("count-zero", "`count: 0`", "zero-count",
            Answer("0 is read as 1", "Write count: 1, or remove the request."),
            is_explained=False),
    Mistake("config-driver", "configuration for another driver", "unused-config",
            Answer("nvidia.com publishes no device of the claim's classes",
                   "Did you mean gpu.nvidia.com?"), is_explained=False),
)  # fmt: skip

ALL = (*KNOWN, *FURTHER, *TRIED)


class Score(NamedTuple):
    """How a command answers: 0 to 2 for the cause, and for the correction."""

    cause: int
    fix: int

    def __str__(self) -> str:
        return f"{self.cause}/{self.fix}"


class Scores(NamedTuple):
    """The scores of one mistake; None where a command has nothing to say."""

    lint: Score
    apply: Score
    explain: Score | None


HEAD = """# Mistakes in manifests, and how they are answered

Written by `python -m tests.cli.mistakes.make_table` from what the tests see. The first number is
2 if the command names the cause. The second is 2 if it prints the correction and the pod runs
after it, and 1 if the correction is in words that are left to you.

| # | mistake | rule | lint | apply | explain | corrected by | and by |
|---|---|---|---|---|---|---|---|
"""


def row(mistake: Mistake, scores: Scores) -> str:
    """Return the line of a mistake in the table."""
    also = "`dray explain --fix`" if mistake.explain_fixes else ""
    by = " ".join(("`dray lint", *mistake.options)) + "`" if mistake.options else "you"
    cells = (ALL.index(mistake) + 1, mistake.what, mistake.rule, scores.lint, scores.apply)
    shown = " | ".join(map(str, (*cells, scores.explain or "–", by, also)))
    return f"| {shown} |"
