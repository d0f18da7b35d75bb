"""May they: roles, nodes, and the words of a refusal."""

from __future__ import annotations

import asyncio

import pytest

from dray.api import kinds
from dray.api.http_messages import Request, User
from dray.api.types.meta import JsonObject
from dray.apiserver.access import authorization
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import Attributes
from dray.apiserver.request import request_info
from tests.unit.apiserver import world
from tests.unit.apiserver.world import ALICE, World
from tests.waiting import until

NODE = world.node_user("n1")
RESOURCE = "resource.k8s.io"


def attributes_of(method: str, path: str, *query: tuple[str, str]) -> Attributes:
    request = Request(method, path, query)
    return authorization.attributes_of(request, request_info.parse(request))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        pytest.param(
            Attributes("list", RESOURCE, "resourceclaims", namespace="default"),
            'User "alice" cannot list resource "resourceclaims" in API group "resource.k8s.io" in '
            'the namespace "default"',
            id="namespace",
        ),
        pytest.param(
            Attributes("list", RESOURCE, "resourceclaims"),
            'User "alice" cannot list resource "resourceclaims" in API group "resource.k8s.io" at '
            "the cluster scope",
            id="cluster",
        ),
        pytest.param(
            Attributes("get", "", "pods", "log", "ns", "p"),
            'User "alice" cannot get resource "pods/log" in API group "" in the namespace "ns"',
            id="subresource",
        ),
        pytest.param(
            Attributes("get", path="/metrics"), 'User "alice" cannot get path "/metrics"', id="path"
        ),
        pytest.param(
            Attributes("get", path="/<b>&"),
            'User "alice" cannot get path "/&lt;b&gt;&amp;"',
            id="no-markup",
        ),
    ],
)
def test_a_refusal_is_worded_as_kubernetes_words_it(attributes: Attributes, message: str) -> None:
    assert World().authorizer.refusal(ALICE, attributes) == message


def test_a_refused_request_is_forbidden() -> None:
    answer = World().ask("GET", world.CLAIMS, user=ALICE)
    assert answer.status == 403
    assert answer.message == (
        'resourceclaims.resource.k8s.io is forbidden: User "alice" cannot list resource '
        '"resourceclaims" in API group "resource.k8s.io" in the namespace "default"'
    )


def test_roles_and_bindings_take_effect_and_end() -> None:
    server = World()
    reads = {"verbs": ["list"], "apiGroups": [RESOURCE], "resources": ["resourceclaims"]}
    world.grant(server, ALICE, reads)
    assert server.ask("GET", world.CLAIMS, user=ALICE).status == 200
    server.ask("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/may-alice")
    assert server.ask("GET", world.CLAIMS, user=ALICE).status == 403


def test_the_authorizer_follows_the_store() -> None:
    server = World()
    list_claims = Attributes("list", RESOURCE, "resourceclaims", namespace="default")

    async def follow() -> None:
        authorizer = await Authorizer.open(server.store)
        following = asyncio.create_task(authorizer.run())
        await asyncio.sleep(0)
        for path, body in granting("list"):
            await server.answer("POST", path, body)
        await until(lambda: authorizer.authorize(ALICE, list_claims).allowed)
        await server.answer("DELETE", f"{granting('list')[0][0]}/reader")
        await until(lambda: not authorizer.authorize(ALICE, list_claims).allowed)
        server.store.close()
        await following

    world.run(follow())


def granting(verb: str) -> list[tuple[str, JsonObject]]:
    group = "rbac.authorization.k8s.io"
    rule = {"verbs": [verb], "apiGroups": [RESOURCE], "resources": ["resourceclaims"]}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "reader"}
    subject = {"apiGroup": group, "kind": "User", "name": "alice"}
    named = {"metadata": {"name": "reader"}}
    return [
        (f"/apis/{group}/v1/clusterroles", {**named, "rules": [rule]}),
        (
            f"/apis/{group}/v1/clusterrolebindings",
            {**named, "roleRef": reference, "subjects": [subject]},
        ),
    ]


def test_a_list_of_one_name_is_about_that_object() -> None:
    path = "/api/v1/namespaces/ns/pods"
    found = attributes_of("GET", path, ("fieldSelector", "metadata.name=p,spec.nodeName=n1"))
    assert (found.verb, found.name) == ("list", "p")
    assert ("spec.nodeName", "n1") in found.fields


def test_a_selector_that_makes_no_sense_allows_nothing() -> None:
    found = attributes_of("GET", "/api/v1/pods", ("fieldSelector", "spec.nodeName"))
    assert not found.fields


def test_what_a_selector_excludes_is_not_what_it_demands() -> None:
    found = attributes_of("GET", "/api/v1/pods", ("fieldSelector", "spec.nodeName!=n1"))
    assert not found.fields


def node_world() -> World:
    server = World()
    mine = world.pod(
        "mine",
        nodeName="n1",
        serviceAccountName="default",
        resourceClaims=[
            {"name": "direct", "resourceClaimName": "my-claim"},
            {"name": "made", "resourceClaimTemplateName": "template"},
        ],
        imagePullSecrets=[{"name": "pull"}],
        volumes=[
            {"name": "s", "secret": {"secretName": "mounted"}},
            {"name": "c", "configMap": {"name": "config"}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    )
    reference = {"secretKeyRef": {"name": "variable", "key": "k"}}
    mine["spec"]["containers"][0]["env"] = [{"name": "A", "valueFrom": reference}]
    mine["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "environment"}}]
    made = server.create(world.PODS, mine)
    made["status"]["resourceClaimStatuses"] = [{"name": "made", "resourceClaimName": "made-claim"}]
    assert server.ask("PUT", f"{world.PODS}/mine/status", made).status == 200
    server.create(world.PODS, world.pod("theirs", nodeName="n2"))
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    server.create(slices, world.resource_slice("s1", "n1"))
    server.create(slices, world.resource_slice("s2", "n2"))
    world.run(server.authorizer.load())
    return server


SHARED_NODE_WORLD = node_world()

RELATED = "no relationship found between node 'n1' and this object"
ONE_BY_ONE = "can only get individual resources of this type"
OWN_PODS = "can only list/watch pods with spec.nodeName field selector"
OWN_SLICES = "can only list/watch/deletecollection resourceslices with nodeName field selector"
OWN_NODE = "only its own Node object"
OWN_LEASE = "can only access node lease with the same name as the requesting node"
LEASES = 'can only access leases in the "kube-node-lease" system namespace'
NOT_SAID = ""


def question(text: str) -> Attributes:
    """`VERB RESOURCE[/SUBRESOURCE] [NAMESPACE/][NAME]`, and `on NODE` for a field selector."""
    text, _, node = text.partition(" on ")
    verb, what, *where = text.split()
    if what.startswith("/"):
        return Attributes(verb, path=what)
    resource, _, subresource = what.partition("/")
    kind = kinds.by_name(resource)
    assert kind is not None
    namespace, _, name = "".join(where).rpartition("/")
    fields = frozenset({("spec.nodeName", node)} if node else ())
    return Attributes(verb, kind.group, resource, subresource, namespace, name, fields=fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("get secrets default/mounted", None),
        ("watch secrets default/projected", None),
        ("get secrets default/variable", None),
        ("get secrets default/pull", None),
        ("get secrets default/other", RELATED),
        ("get secrets other/mounted", RELATED),
        ("list secrets default/", "No Object name found"),
        ("update secrets default/mounted", "can only read resources of this type"),
        ("get configmaps default/config", None),
        ("get configmaps default/environment", None),
        ("get persistentvolumeclaims default/data", None),
        ("get resourceclaims default/my-claim", None),
        ("get resourceclaims default/made-claim", None),
        ("get resourceclaims default/x", RELATED),
        ("list resourceclaims default/", ONE_BY_ONE),
        ("update resourceclaims default/my-claim", ONE_BY_ONE),
        ("patch resourceclaims/status default/my-claim", None),
        ("patch resourceclaims/status default/x", RELATED),
        ("associated-node:patch resourceclaims/driver default/d", None),
        ("arbitrary-node:patch resourceclaims/driver default/d", NOT_SAID),
        ("get pods default/mine", None),
        ("get pods default/theirs", RELATED),
        ("list pods on n1", None),
        ("watch pods on n2", OWN_PODS),
        ("list pods", OWN_PODS),
        ("watch pods default/mine", None),
        ("patch pods/status default/mine", None),
        ("create pods/binding default/mine", NOT_SAID),
        ("get namespaces default", None),
        ("get namespaces other", RELATED),
        ("list namespaces", ONE_BY_ONE),
        ("update namespaces default", ONE_BY_ONE),
        ("get nodes n1", None),
        ("get nodes n2", f"node 'n1' cannot read 'n2', {OWN_NODE}"),
        ("list nodes", f"node 'n1' cannot read all nodes, {OWN_NODE}"),
        ("patch nodes/status n1", None),
        ("delete nodes n1", NOT_SAID),
        ("update leases kube-node-lease/n1", None),
        ("update leases kube-node-lease/n2", OWN_LEASE),
        ("update leases default/n1", LEASES),
        ("get resourceslices s1", None),
        ("update resourceslices s2", RELATED),
        ("list resourceslices on n1", None),
        ("list resourceslices", OWN_SLICES),
        ("create resourceslices", None),
        ("create serviceaccounts/token default/default", None),
        ("create serviceaccounts/token default/builder", RELATED),
        ("create events default/", None),
        ("create deployments default/", NOT_SAID),
        ("get /api", None),
        ("get /metrics", NOT_SAID),
    ],
)
def test_a_node_may_do_what_concerns_it(text: str, reason: str | None) -> None:
    decision = SHARED_NODE_WORLD.authorizer.authorize(NODE, question(text))
    assert (None if decision.allowed else decision.reason) == reason


def test_a_mirror_pod_gives_its_node_no_rights() -> None:
    server = World()
    body = world.pod("mirror", nodeName="n1", volumes=[{"name": "c", "configMap": {"name": "x"}}])
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    server.create(world.PODS, body)
    world.run(server.authorizer.load())
    for resource, name in (("configmaps", "x"), ("namespaces", "default")):
        read = Attributes("get", "", resource, "", "default", name)
        assert not server.authorizer.authorize(NODE, read).allowed


def test_rights_end_with_the_pod() -> None:
    server = node_world()
    read = Attributes("get", "", "secrets", "", "default", "mounted")
    assert server.authorizer.authorize(NODE, read).allowed
    server.ask("DELETE", f"{world.PODS}/mine", query="gracePeriodSeconds=0")
    world.run(server.authorizer.load())
    assert not server.authorizer.authorize(NODE, read).allowed


def test_only_members_of_the_group_are_nodes() -> None:
    pretender = User("system:node:n1", frozenset({"system:authenticated"}))
    read = Attributes("get", "", "nodes", "", "", "n1")
    assert not SHARED_NODE_WORLD.authorizer.authorize(pretender, read).allowed


def test_a_nodes_refusal_says_what_is_missing() -> None:
    answer = SHARED_NODE_WORLD.ask("GET", "/api/v1/namespaces/default/secrets/other", user=NODE)
    assert answer.status == 403
    assert answer.message == (
        'secrets "other" is forbidden: User "system:node:n1" cannot get resource "secrets" in API '
        f'group "" in the namespace "default": {RELATED}'
    )
