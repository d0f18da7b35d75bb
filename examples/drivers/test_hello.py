"""The driver hello.py, tested on its sockets in a whole cluster: `pytest examples/drivers`."""

from __future__ import annotations

from examples.drivers.hello import Hello

from dray.testing import Cluster

CLAIM_AND_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: voice}
spec:
  devices:
    requests: [{name: any, exactly: {deviceClassName: hello.example.com}}]
    config:
      - opaque: {driver: hello.example.com, parameters: {greeting: moin}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: main, image: busybox, resources: {claims: [{name: voice}]}}]
  resourceClaims: [{name: voice, resourceClaimName: voice}]
"""


def test_a_container_is_greeted_as_its_claim_wants(cluster: Cluster) -> None:
    with cluster.driver(Hello(), node="gpu-0") as driver:
        cluster.apply(CLAIM_AND_POD)
        cluster.wait_for_pod("user")
        assert driver.prepare("voice").env == {"GREETING": "moin from hello-0"}
        driver.unprepare("voice")
