"""Rules for the small kinds around pods."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.unit.validation import objects


def decode(kind: str, api_version: str = "v1", **content: Any) -> Any:
    return objects.decode({"kind": kind, "metadata": objects.metadata(), **content}, api_version)


def test_the_name_of_a_namespace_is_a_label() -> None:
    value = objects.decode({"kind": "Namespace", "metadata": {"name": "a.b"}})
    assert objects.created("Namespace", value) == [
        'metadata.name: Invalid value: "a.b": must not contain dots'
    ]


def test_keys_of_a_config_map_are_file_names() -> None:
    value = decode("ConfigMap", data={"a/b": "", "both": ""}, binaryData={"both": "AA=="})
    first, second = objects.created("ConfigMap", value)
    assert first.startswith('data[a/b]: Invalid value: "a/b": a valid config key must')
    assert second == 'data[both]: Invalid value: "both": duplicate of key present in binaryData'


def test_a_config_map_is_limited_in_size() -> None:
    half = base64.b64encode(b"x" * 512 * 1024).decode()
    fits = decode("ConfigMap", data={"a": "x" * 512 * 1024}, binaryData={"b": half})
    assert not objects.created("ConfigMap", fits)
    large = decode("ConfigMap", data={"a": "x" * 512 * 1024 + "y"}, binaryData={"b": half})
    assert objects.created("ConfigMap", large) == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_what_is_declared_immutable_stays(kind: str) -> None:
    old = decode(kind, immutable=True, data={"a": "AAAA"})
    assert objects.updated(kind, decode(kind, data={"a": "BBBB"}), old) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]


def test_a_secret_has_what_its_type_promises() -> None:
    value = decode("Secret", type="kubernetes.io/tls", data={"tls.crt": "AAAA"})
    assert objects.created("Secret", value) == ["data[tls.key]: Required value"]


def test_a_pod_is_bound_to_a_node() -> None:
    value = decode("Binding", target={"kind": "Machine", "name": ""})
    assert objects.created("Binding", value) == [
        'target.kind: Unsupported value: "Machine": supported values: "Node", "<empty>"',
        "target.name: Required value",
    ]


def test_a_lease_lasts() -> None:
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    value = decode("Lease", "coordination.k8s.io/v1", spec=spec)
    assert objects.created("Lease", value) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


def priority_class(name: str, value: int) -> Any:
    content = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    return objects.decode(content, "scheduling.k8s.io/v1")


def test_the_highest_priorities_are_for_the_system() -> None:
    assert objects.created("PriorityClass", priority_class("mine", 1_000_000_001)) == [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    ]
    assert not objects.created(
        "PriorityClass", priority_class("system-node-critical", 2_000_001_000)
    )
    (message,) = objects.created("PriorityClass", priority_class("system-mine", 1))
    assert message.endswith("error: system-mine is not a known system priority class")


def test_a_budget_is_given_in_one_way() -> None:
    spec = {"minAvailable": 1, "maxUnavailable": "50%"}
    value = decode("PodDisruptionBudget", "policy/v1", spec=spec)
    (message,) = objects.created("PodDisruptionBudget", value)
    assert message.endswith("minAvailable and maxUnavailable cannot be both set")


class TestPodGroup:
    def group(self, **spec: Any) -> Any:
        content = {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}, **spec}
        return decode("PodGroup", "scheduling.k8s.io/v1beta1", spec=content)

    def test_a_plain_group_is_valid(self) -> None:
        claims = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
        assert not objects.created("PodGroup", self.group(resourceClaims=claims))

    def test_a_claim_of_a_group_has_one_source(self) -> None:
        assert objects.created("PodGroup", self.group(resourceClaims=[{"name": "gpus"}])) == [
            'spec.resourceClaims[0]: Invalid value: "": '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ]

    def test_a_group_has_at_most_four_claims(self) -> None:
        claims = [{"name": f"c{index}", "resourceClaimName": "c"} for index in range(5)]
        assert objects.created("PodGroup", self.group(resourceClaims=claims)) == [
            "spec.resourceClaims: Too many: 5: must have at most 4 items"
        ]

    def test_the_claims_of_a_group_stay(self) -> None:
        claims = [{"name": "gpus", "resourceClaimName": "gpus"}]
        old, new = self.group(resourceClaims=claims), self.group()
        assert objects.updated("PodGroup", new, old) == [
            "spec.resourceClaims: Invalid value: null: field is immutable"
        ]

    def test_a_gang_cannot_be_formed_later(self) -> None:
        new = self.group(schedulingPolicy={"gang": {"minCount": 2}})
        assert objects.updated("PodGroup", new, self.group()) == [
            "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
            "spec.schedulingPolicy.gang: Invalid value: null: field cannot be set once created",
        ]
