"""Programs in pods that speak with the API server, as Kubernetes' own clients do."""

from __future__ import annotations

from pathlib import Path

import kubernetes

from dray.api import kinds
from dray.apiserver.access.certificates import Authority
from dray.apiserver.server import Settings
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node

pytestmark = needs_sandbox

PACKAGES = str(Path(kubernetes.__file__).parents[1])
PROGRAM = """
from kubernetes import client, config
config.load_incluster_config()
review = client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview())
print(review.status.user_info.username)
"""


def test_a_program_in_a_pod_uses_its_service_account() -> None:
    async def story(here: Site) -> None:
        cluster = here.world.cluster
        authority = Authority.load_or_create(here.folder)
        pair = authority.server_pair(("127.0.0.1",))
        listening = cluster.opened.server.listening("127.0.0.1", 0, pair, authority.certificate)
        async with listening as url:
            cluster.network.api_server = ("127.0.0.1", int(url.rpartition(":")[2]))
            mounts = [{"name": "packages", "mountPath": "/packages", "readOnly": True}]
            made = container(
                "",
                command=["python3", "-c", PROGRAM],
                env=[{"name": "PYTHONPATH", "value": "/packages"}],
                volumeMounts=mounts,
            )
            body = pod("p", made, restartPolicy="Never")
            body["spec"]["volumes"] = [{"name": "packages", "hostPath": {"path": PACKAGES}}]
            await here.world.create(body)
            assert await here.output("p") == "system:serviceaccount:default:default\n"

    with_node(story, settings=Settings(mounts_tokens=True), allows_host=True)


def test_the_service_of_the_api_server_is_there() -> None:
    async def story(here: Site) -> None:
        found = await here.world.client.get(kinds.SERVICE, "kubernetes", "default")
        assert found["spec"]["ports"] == [
            {"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}
        ]

    with_node(story)
