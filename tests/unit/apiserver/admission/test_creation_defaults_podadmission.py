"""What every new pod gets."""

from __future__ import annotations

import pytest

from dray.api.types.meta import JsonObject
from tests.unit.apiserver import world
from tests.unit.apiserver.world import World

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


def test_a_pod_runs_as_default_and_tolerates_short_outages() -> None:
    spec = World().create(world.PODS, world.pod("p"))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert spec["tolerations"] == [NOT_READY, UNREACHABLE]
    assert "volumes" not in spec


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        pytest.param({"operator": "Exists"}, [], id="everything"),
        pytest.param(
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            [UNREACHABLE],
            id="one-of-them",
        ),
        pytest.param(
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            [NOT_READY, UNREACHABLE],
            id="another-effect",
        ),
    ],
)
def test_what_a_pod_tolerates_itself_is_left_alone(
    toleration: JsonObject, added: list[JsonObject]
) -> None:
    spec = World().create(world.PODS, world.pod("p", tolerations=[toleration]))["spec"]
    assert spec["tolerations"] == [toleration, *added]


def test_an_account_that_does_not_exist_is_refused() -> None:
    answer = World().ask("POST", world.PODS, world.pod("p", serviceAccountName="builder"))
    assert answer.status == 403
    assert answer.message == (
        'pods "p" is forbidden: error looking up service account default/builder: '
        'serviceaccount "builder" not found'
    )


def test_the_secrets_of_an_account_are_those_of_its_pods() -> None:
    server = World()
    account = {"metadata": {"name": "builder"}, "imagePullSecrets": [{"name": "registry"}]}
    server.create(ACCOUNTS, account)
    spec = server.create(world.PODS, world.pod("p", serviceAccountName="builder"))["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


def test_the_token_is_mounted_where_the_server_is_told_to() -> None:
    server = World(mounts_tokens=True)
    spec = server.create(world.PODS, world.pod("p"))["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"]["defaultMode"] == 420
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    assert spec["containers"][0]["volumeMounts"] == [
        {
            "name": volume["name"],
            "readOnly": True,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        }
    ]


def test_a_pod_may_do_without_a_token() -> None:
    server = World(mounts_tokens=True)
    body = world.pod("p", automountServiceAccountToken=False)
    assert "volumes" not in server.create(world.PODS, body)["spec"]


def test_an_account_may_do_without_tokens() -> None:
    server = World(mounts_tokens=True)
    account = {"metadata": {"name": "shy"}, "automountServiceAccountToken": False}
    server.create(ACCOUNTS, account)
    body = world.pod("p", serviceAccountName="shy")
    assert "volumes" not in server.create(world.PODS, body)["spec"]


def test_a_mirror_pod_is_left_as_it_is() -> None:
    body = world.pod("p", nodeName="n1")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    assert "serviceAccountName" not in World().create(world.PODS, body)["spec"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        (
            {"volumes": [{"name": "s", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
    ],
)
def test_a_mirror_pod_gets_no_credentials(changes: JsonObject, message: str) -> None:
    body = world.pod("p", nodeName="n1", **changes)
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    answer = World().ask("POST", world.PODS, body)
    assert answer.message == f'pods "p" is forbidden: {message}'


def test_new_nodes_are_not_ready() -> None:
    server = World()
    made = server.create("/api/v1/nodes", world.node("n1"))
    assert made["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]
    made["spec"]["taints"] = []
    assert server.ask("PUT", "/api/v1/nodes/n1", made).body["spec"] == {}
