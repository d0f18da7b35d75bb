"""Random requests to an API server: mostly sensible, bent in one place or another.

Objects come from seeds that are changed at random places, or straight from the schema. A few names
are used again and again, so that requests meet what others left behind.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from dray.api import http_messages, kinds
from dray.api.kinds import Kind
from dray.api.schema import field_types
from dray.api.schema.field_types import Type, WireForm
from dray.api.types.meta import JsonObject
from tests.wire import protobuf

USERS = ("admin", "view", "edit", "nobody", "anonymous", "node")
USER_WEIGHTS = (76, 5, 7, 4, 4, 4)


class Planned(NamedTuple):
    """One request; what is in the path and the query is already encoded."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    user: str = "admin"
    """One of USERS: who asks, where the server is not told by a certificate."""


NAMES = ("a", "b", "c-1", "gpu.example.com", "default", "kube-system", "node-1", "system:x")
NAMESPACES = ("default", "kube-system", "nowhere", "a")
STRINGS = (
    "", "a", "A_B", "gpu.example.com", "x" * 300, "☃", "\x00", "a\nb", "../..", "-", "a/b", "a/b/c",
    "true", "null", "1", "-1", "1e9", "1Gi", "100m", "9" * 40, "0.000000000001", "1Ei",
    "2026-01-01T00:00:00Z", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "ExactCount", "All",
    "Exists", "In", "NoExecute", "Always", "Never", "ClusterIP", "%41", "{}", "[]", '"', "\\",
    'device.driver == "x"', "device.attributes['a'].b > 1", "[" * 200, "a" * 11_000, "𝟙", "\ud7ff",
    "\ud800", "\u202e", "İ", "a" * 253, "a." * 126 + "a", "1" * 5000, "1e400", "-0",
    "system:masters", "a=b,c", "0x1F", "1_000", "۱", "P1D", "$(A)", "kubernetes.io/x",
    "2026-01-01", "~1", "..",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    255,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    2**63,
    10**30,
    0.5,
    1e300,
)
AUTHORIZATIONS = (
    "", "Bearer", "Bearer ", "Bearer x", "Bearer a.b.c", "Bearer ☃", "Basic YTpi", "bearer  x y",
    "Bearer " + "e30." * 3, "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer " + "a" * 40_000,
    "Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IngifQ." + "W1tb" * 5000 + ".AA",
)  # fmt: skip
ACCEPTS = (
    "", "application/json", "application/yaml", "*/*", "text/csv", http_messages.PROTOBUF,
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ";;;,,,=", "a" * 3000,
)  # fmt: skip
PATCHES = (
    http_messages.JSON_PATCH, http_messages.MERGE_PATCH,
    http_messages.STRATEGIC_MERGE_PATCH, http_messages.APPLY_PATCH,
)  # fmt: skip
QUERIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("limit", ("1", "0", "-1", "x", "99999999999999999999")),
    ("continue", ("garbage", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0")),
    ("resourceVersion", ("0", "1", "40", "999999999", "abc", "-1", "9" * 30, "9" * 5000, "۱")),
    ("resourceVersionMatch", ("Exact", "NotOlderThan", "Nope")),
    ("labelSelector", ("a=b", "a in (b,c)", "!a", "a in (", "=", ",,,", "a" * 400, "c notin (d)")),
    ("fieldSelector", ("metadata.name=a", "spec.nodeName!=b", "x.y=z", "=", "metadata.name", "\\")),
    ("dryRun", ("All", "Maybe")),
    ("fieldManager", ("me", "x" * 200, "\x01")),
    ("fieldValidation", ("Strict", "Warn", "Ignore", "Sure")),
    ("force", ("true", "1", "no")),
    ("pretty", ("true",)),
    ("includeObject", ("None", "Object", "Metadata", "x")),
    ("gracePeriodSeconds", ("0", "-1", "x", "30")),
    ("propagationPolicy", ("Orphan", "Background", "Foreground", "x")),
    ("orphanDependents", ("true", "x")),
    ("container", ("c", "x")),
    ("tailLines", ("1", "-1", "x")),
    ("command", ("ls",)),
)  # fmt: skip
OTHER_PATHS = (
    "/", "/api", "/apis", "/api/v1", "/apis/resource.k8s.io", "/apis/resource.k8s.io/v1", "//",
    "/version", "/healthz", "/livez?verbose", "/readyz", "/metrics", "/openapi/v3", "/openapi/v2",
    "/openapi/v3/apis/resource.k8s.io/v1", "/openapi/v3/api/v1", "/openapi/v3/../..", "/%2e%2e/",
    "/api/v1/namespaces/%00/pods", "/api/v1/namespaces//pods", "/api/v1/pods/a/b/c/d/e", "/%ff%fe",
    "/api/v1/watch/pods", "/apis/resource.k8s.io/v9/resourceclaims", "/" + "a" * 5000,
)  # fmt: skip

_CONTAINER = {"name": "c", "image": "example.com/x:1", "resources": {"claims": [{"name": "gpu"}]}}
_POD_SPEC = {
    "containers": [_CONTAINER],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}],
}
_SELECTOR = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
_REQUEST = {
    "name": "gpu",
    "exactly": {"deviceClassName": "gpu.example.com", "selectors": [_SELECTOR]},
}
_CLAIM_SPEC = {"devices": {"requests": [_REQUEST]}}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD_SPEC}
_WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
_DEVICE = {
    "name": "gpu-0",
    "attributes": {"model": {"string": "x"}, "index": {"int": 0}},
    "capacity": {"memory": {"value": "16Gi"}},
}
_RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}
SEEDS: dict[str, JsonObject] = {
    "Pod": {"spec": _POD_SPEC, "status": {"phase": "Running", "conditions": []}},
    "ResourceClaim": {
        "spec": _CLAIM_SPEC,
        "status": {
            "allocation": {"devices": {"results": [_RESULT]}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
            "devices": [{"driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}],
        },
    },
    "ResourceClaimTemplate": {"spec": {"metadata": {"labels": {"a": "b"}}, "spec": _CLAIM_SPEC}},
    "ResourceSlice": {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [_DEVICE],
        }
    },
    "DeviceClass": {"spec": {"selectors": [_SELECTOR], "config": []}},
    "DeviceTaintRule": {
        "spec": {"taint": {"key": "a", "effect": "NoExecute"}, "deviceSelector": {"driver": "d"}}
    },
    "ResourcePoolStatusRequest": {"spec": {"driver": "gpu.example.com"}},
    "Deployment": {"spec": {"replicas": 2, **_WORKLOAD}},
    "ReplicaSet": {"spec": {"replicas": 2, **_WORKLOAD}},
    "StatefulSet": {"spec": {"serviceName": "s", **_WORKLOAD}},
    "DaemonSet": {"spec": _WORKLOAD},
    "Job": {"spec": {"template": {"spec": {**_POD_SPEC, "restartPolicy": "Never"}}}},
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}},
    "Secret": {"data": {"a": "YQ=="}, "type": "Opaque"},
    "Node": {"spec": {"taints": []}, "status": {"capacity": {"cpu": "4"}}},
    "ResourceQuota": {"spec": {"hard": {"pods": "1000000"}}},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
    "Lease": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}},
    "Event": {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}},
    "SelfSubjectAccessReview": {"spec": {"resourceAttributes": {"verb": "get"}}},
    "PriorityClass": {"value": 7},
}
BODIES_OF_SUBRESOURCES: dict[str, JsonObject] = {
    "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 3}},
    "binding": {
        "apiVersion": "v1",
        "kind": "Binding",
        "target": {"kind": "Node", "name": "node-1"},
    },
    "eviction": {"apiVersion": "policy/v1", "kind": "Eviction"},
    "token": {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Requests:
    """An endless stream of requests that depends on the seed alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __iter__(self) -> Iterator[Planned]:
        while True:
            yield self._next()

    def _next(self) -> Planned:
        if self._happens(0.05):
            method = self._random.choice((*METHODS, "HEAD", "OPTIONS", "TRACE", "BREW"))
            path = self._random.choice(OTHER_PATHS)
            return Planned(method, path, self._headers(""), b"", self._user())
        kind = self._random.choice(kinds.KINDS)
        version = self._random.choice(kind.versions)
        method = self._random.choices(METHODS, (25, 35, 12, 20, 8))[0]
        return self._about(kind, version, method)

    def _about(self, kind: Kind, version: str, method: str) -> Planned:
        name = "" if method == "POST" or self._happens(0.2) else self._random.choice(NAMES)
        subresource = ""
        if kind.subresources and self._happens(0.25):
            name = name or self._random.choice(NAMES)
            subresource = self._random.choice(kind.subresources).name
        path = self._path(kind, version, name, subresource)
        media, body = self._body(kind, version, method, name, subresource)
        url = path + self._query(method)
        return Planned(method, url, self._headers(media), body, self._user())

    def again(self, kept: Planned, other: Planned) -> Planned:
        """Return an earlier request that is changed once more, some of it taken from another."""
        changed = kept._replace(user=self._user())
        if self._happens(0.3):
            changed = changed._replace(url=kept.url.split("?")[0] + self._query(kept.method))
        if self._happens(0.1):
            changed = changed._replace(method=self._random.choice(METHODS))
        if self._happens(0.15):
            changed = changed._replace(body=other.body, headers=other.headers)
        if self._happens(0.2):
            return changed._replace(body=self._flipped(changed.body))
        try:
            document = json.loads(changed.body)
        except (ValueError, RecursionError):
            return changed._replace(body=self._flipped(changed.body))
        return self._rewritten(changed, self._bent(document))

    def _rewritten(self, request: Planned, document: Any) -> Planned:
        """Return a request with another body, in JSON or one of the other media types."""
        headers, data = dict(request.headers), self._json(document)
        if request.method == "PATCH" and self._happens(0.2):
            headers["content-type"] = self._random.choice(PATCHES)
        elif request.method in ("POST", "PUT") and self._happens(0.2):
            headers["content-type"], data = self._encoded(document)
        if self._happens(0.05):
            data = self._doubled(data)
        return request._replace(headers=headers, body=data)

    def _encoded(self, document: Any) -> tuple[str, bytes]:
        if self._happens(0.4):
            return http_messages.YAML, yaml.safe_dump(_without_surrogates(document)).encode()
        try:
            data = protobuf.encode(document)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            # Not every document has a form in protobuf.
            return http_messages.JSON, self._json(document)
        return http_messages.PROTOBUF, self._flipped(data) if self._happens(0.5) else data

    def _flipped(self, data: bytes) -> bytes:
        """Return bytes of which a few are changed, cut out, or there twice."""
        changed = bytearray(data)
        while changed and self._happens(0.6):
            place = self._random.randrange(len(changed))
            match self._random.randrange(4):
                case 0:
                    changed[place] ^= 1 << self._random.randrange(8)
                case 1:
                    changed[place] = self._random.choice((0, 0x7F, 0x80, 0xFF))
                case 2:
                    del changed[place : place + self._random.randrange(1, 9)]
                case 3:
                    end = place + self._random.randrange(1, 60)
                    changed[place:place] = changed[place:end] * self._random.choice((1, 3))
        return bytes(changed)

    def _doubled(self, data: bytes) -> bytes:
        """Return a JSON object that has its first key twice."""
        body = data.strip()
        return b"{" + body[1:-1] + b"," + body[1:] if len(body) > 2 and body[:1] == b"{" else data

    def _user(self) -> str:
        return self._random.choices(USERS, USER_WEIGHTS)[0]

    def _path(self, kind: Kind, version: str, name: str, subresource: str) -> str:
        root = f"/apis/{kind.group}" if kind.group else "/api"
        scope = ""
        if kind.namespaced and not self._happens(0.1):
            namespace = self._random.choices(NAMESPACES, (80, 10, 5, 5))[0]
            scope = f"/namespaces/{namespace}"
        parts = [root, f"/{version}", scope, f"/{kind.plural}"]
        parts += [f"/{quote(each, safe='')}" for each in (name, subresource) if each]
        if self._happens(0.01):
            parts.append(f"/{quote(self._random.choice(STRINGS), safe='', errors='replace')}")
        return "".join(parts)

    def _query(self, method: str) -> str:
        pairs = []
        while self._happens(0.3):
            name, values = self._random.choice(QUERIES)
            pairs.append(f"{name}={quote(self._random.choice(values))}")
        if method == "GET" and self._happens(0.1):
            pairs += ["watch=true", "timeoutSeconds=1"]
            if self._happens(0.5):
                pairs += ["sendInitialEvents=true", "resourceVersionMatch=NotOlderThan"]
                pairs.append("allowWatchBookmarks=true")
        return f"?{'&'.join(pairs)}" if pairs else ""

    def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"content-type": content_type} if content_type else {}
        if self._happens(0.15):
            headers["accept"] = self._random.choice(ACCEPTS)
        if self._happens(0.02):
            headers["impersonate-user"] = self._random.choice(
                ("alice", "system:serviceaccount:a:b")
            )
        if self._happens(0.05):
            headers["authorization"] = self._random.choice(AUTHORIZATIONS)
        if self._happens(0.01):
            headers["if-none-match"] = '"x"'
        return headers

    def _body(
        self, kind: Kind, version: str, method: str, name: str, subresource: str
    ) -> tuple[str, bytes]:
        if method == "GET":
            return "", b""
        if method == "DELETE":
            options = {"propagationPolicy": "Background", "preconditions": {"uid": "x"}}
            return http_messages.JSON, self._json(self._bent(options)) if self._happens(
                0.5
            ) else b""
        if method == "PATCH":
            return self._patch(self._object(kind, version, name))
        document = self._object(kind, version, name)
        if subresource in BODIES_OF_SUBRESOURCES:
            document = {**BODIES_OF_SUBRESOURCES[subresource], "metadata": {"name": name}}
        document = self._bent(document)
        if self._happens(0.05):
            return self._hostile()
        if self._happens(0.2):
            return self._encoded(document)
        media = self._random.choice((http_messages.JSON, http_messages.JSON, ""))
        return media, self._json(document)

    def _object(self, kind: Kind, version: str, name: str) -> JsonObject:
        gvk = kind.in_version(version)
        document: JsonObject = {"apiVersion": gvk.api_version, "kind": kind.kind}
        document["metadata"] = {"name": name or self._random.choice(NAMES)}
        if self._happens(0.2):
            document["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["example.com/x"]}
        if kind.kind in SEEDS and self._happens(0.8):
            return {**copy.deepcopy(SEEDS[kind.kind]), **document}
        made = self._value(field_types.type_named(gvk.schema_type), 0)
        return {**(made if isinstance(made, dict) else {}), **document}

    def _value(self, type_: Type, depth: int) -> Any:
        """Something of a type, or now and then of another."""
        if self._happens(0.02):
            return self._random.choice((None, *STRINGS, *NUMBERS, [], {}, True))
        if type_.form is WireForm.STRUCT:
            likely = 0.5 / (depth + 1)
            return {
                field.name: self._value(field.type, depth + 1)
                for field in field_types.fields(type_.name).values()
                if self._happens(0.9 if field.is_required else likely)
            }
        if type_.form in (WireForm.LIST, WireForm.MAP):
            assert type_.element is not None
            made = [self._value(type_.element, depth + 1) for _ in range(self._random.randrange(3))]
            if type_.form is WireForm.LIST:
                return made
            return {self._random.choice(STRINGS): each for each in made}
        return self._scalar(type_.form)

    def _scalar(self, form: WireForm) -> Any:
        if form is WireForm.BOOLEAN:
            return self._happens(0.5)
        if form in (WireForm.INT32, WireForm.INT64, WireForm.FLOAT):
            return self._random.choice(NUMBERS)
        return self._random.choice(STRINGS)

    def _bent(self, document: Any) -> Any:
        """The document, changed at a few random places."""
        while self._happens(0.4):
            places = list(every_place(document))
            owner, key = self._random.choice(places) if places else ({}, "")
            change = self._random.choice(_CHANGES)
            change(self._random, owner, key)
        return document

    def _patch(self, document: JsonObject) -> tuple[str, bytes]:
        media = self._random.choice((*PATCHES * 5, http_messages.JSON, "text/x"))
        if media == http_messages.JSON_PATCH and self._happens(0.05):
            return media, self._json(self._doublings())
        if media == http_messages.APPLY_PATCH and self._happens(0.1):
            return media, self._hostile()[1]
        if media == http_messages.JSON_PATCH:
            return media, self._json([self._operation(document) for _ in range(2)])
        patch = self._bent(document)
        if media == http_messages.STRATEGIC_MERGE_PATCH and self._happens(0.5):
            places = [owner for owner, _ in every_place(patch) if isinstance(owner, dict)]
            if places:
                self._random.choice(places).update(self._directive())
        return media, self._json(patch)

    def _directive(self) -> JsonObject:
        return self._random.choice(
            (
                {"$patch": self._random.choice(("delete", "replace", "merge", "x"))},
                {"$setElementOrder/containers": [{"name": "c"}]},
                {"$deleteFromPrimitiveList/finalizers": ["example.com/x"]},
                {"$retainKeys": ["a"]},
                {"$setElementOrder/x": 7},
            )
        )

    def _doublings(self) -> list[JsonObject]:
        """Return operations that make the object twice as large each."""
        return [{"op": "add", "path": "/metadata/annotations", "value": {"a": "x" * 100}}] + [
            {
                "op": "copy",
                "from": "/metadata/annotations",
                "path": f"/metadata/annotations/{number}",
            }
            for number in range(self._random.choice((5, 30, 1000)))
        ]

    def _operation(self, document: JsonObject) -> Any:
        pointer = self._random.choice(["/" + "/".join(path) for path in _paths(document)])
        operation = self._random.choice(("add", "remove", "replace", "move", "copy", "test", "x"))
        made: JsonObject = {
            "op": operation,
            "path": pointer,
            "value": self._random.choice((*STRINGS, None, {})),
        }
        if self._happens(0.3):
            made["from"] = "/metadata"
        return self._bent(made)

    def _hostile(self) -> tuple[str, bytes]:
        """Return a body that no client would send."""
        depth = self._random.choice((50, 300, 100_000))
        bodies = (
            b"[" * depth,
            b'{"a":' * depth + b"1" + b"}" * depth,
            b"\xff\xfe\x00",
            b'{"kind":"Pod","kind":"Pod","metadata":{"name":"a","name":"b"}}',
            b'{"metadata":{"name":"a"},"x":NaN}',
            b'"text"',
            b"1" * 100_000,
            b'{"a":"' + b"x" * 4_000_000 + b'"}',
        )
        messages = (
            b"k8s\x00" + self._random.randbytes(64),
            b"k8s\x00\x0a\x0a\x0a\x02v1\x12\x03Pod\x12\xff\xff\xff\xff\x0f",
            self._random.randbytes(8),
        )
        return self._random.choice(
            (
                (http_messages.JSON, self._random.choice(bodies)),
                (http_messages.YAML, self._hostile_yaml(depth)),
                (http_messages.PROTOBUF, self._random.choice(messages)),
            )
        )

    def _hostile_yaml(self, depth: int) -> bytes:
        """Return YAML that is small to send and large to read."""
        aliases, merges = ["a: &a [x,x,x,x,x,x,x,x,x]"], ["a: &a {k: 1}"]
        for before, name in itertools.pairwise("abcdefghij"):
            parts = ",".join([f"*{before}"] * 9)
            aliases.append(f"{name}: &{name} [{parts}]")
            merges.append(f"{name}: &{name} {{<<: [{parts}]}}")
        return self._random.choice(
            (
                "\n".join(aliases).encode(),
                "\n".join(merges).encode(),
                b"!!python/object/apply:os.system [ls]",
                b"a: [" * 200,
                b"[" * depth,
                b"{a: " * depth,
                b"- " * depth + b"1",
                b"a: " + b"1:" * depth + b"1",
                b"a: 0" + b"7" * depth,
                b"a: |\n" + b"  x\n" * depth,
                b"{a: 2026-01-01, b: 0x7f, ? [1] : 2}",
            )
        )

    def _json(self, document: Any) -> bytes:
        return json.dumps(document).encode()

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability


def every_place(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys or indexes."""
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield value, key
            yield from every_place(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from every_place(item)


def _paths(value: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        yield (*prefix, str(key))
        if isinstance(item, (dict, list)):
            yield from _paths(item, (*prefix, str(key)))


def _replace(chance: random.Random, owner: Any, key: Any) -> None:
    if key != "" or owner:
        owner[key] = chance.choice((*STRINGS, *NUMBERS, None, [], {}, True))


def _remove(_chance: random.Random, owner: Any, key: Any) -> None:
    if owner:
        del owner[key]


def _add(chance: random.Random, owner: Any, _key: Any) -> None:
    if isinstance(owner, dict):
        owner[chance.choice(STRINGS)] = chance.choice(STRINGS)
    else:
        owner.append(chance.choice((*STRINGS, {}, None)))


def _repeat(chance: random.Random, owner: Any, key: Any) -> None:
    if isinstance(owner, list):
        owner.extend([copy.deepcopy(owner[key])] * chance.choice((1, 40)))


_CHANGES: tuple[Callable[[random.Random, Any, Any], None], ...] = (_replace, _remove, _add, _repeat)


def _without_surrogates(document: Any) -> Any:
    """Return a document that YAML can be written of: without NUL and halves of characters."""
    text = json.dumps(document, ensure_ascii=False).replace("\\u0000", "?")
    return json.loads(text.encode("utf-8", "replace"))
