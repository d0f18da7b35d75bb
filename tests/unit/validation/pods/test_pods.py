"""Rules for pods: claims, containers, volumes, placement, and what an update may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validation import objects


def container(**changes: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox", **changes}


def created(**spec: Any) -> list[str]:
    return objects.created("Pod", objects.pod(objects.pod_spec(**spec)))


def created_with(**changes: Any) -> list[str]:
    """Errors of a pod whose only container has these fields."""
    return created(containers=[container(**changes)])


def test_a_plain_pod_is_valid() -> None:
    assert not created()


def test_a_pod_with_everything_ordinary_is_valid() -> None:
    assert not created(
        initContainers=[container(name="setup"), container(name="sidecar", restartPolicy="Always")],
        containers=[
            container(
                ports=[{"name": "http", "containerPort": 80}],
                env=[
                    {"name": "A", "value": "b"},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                envFrom=[{"configMapRef": {"name": "settings"}}],
                resources={
                    "requests": {"cpu": 1, "memory": "1Gi", "example.com/gpu": 1},
                    "limits": {"memory": "1Gi", "example.com/gpu": 1},
                    "claims": [{"name": "gpu", "request": "big"}],
                },
                volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
                livenessProbe={"httpGet": {"path": "/", "port": "http"}},
                lifecycle={"preStop": {"sleep": {"seconds": 5}}},
                securityContext={"runAsUser": 1000},
            )
        ],
        volumes=[
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "settings", "configMap": {"name": "settings"}},
        ],
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        nodeSelector={"kubernetes.io/arch": "amd64"},
        schedulingGates=[{"name": "example.com/wait"}],
    )


def test_a_volume_of_an_unknown_kind_is_no_error() -> None:
    volume = {"name": "data", "nfs": {"server": "s", "path": "/"}}
    mount = {"name": "data", "mountPath": "/data"}
    assert not created(volumes=[volume], containers=[container(volumeMounts=[mount])])


class TestClaims:
    def test_a_claim_needs_a_source(self) -> None:
        assert created(resourceClaims=[{"name": "gpu"}]) == [
            'spec.resourceClaims[0]: Invalid value: {"name":"gpu"}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ]

    def test_a_claim_has_only_one_source(self) -> None:
        claim = {"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}
        assert created(resourceClaims=[claim]) == [
            'spec.resourceClaims[0]: Invalid value: {"name":"gpu","resourceClaimName":"a",'
            '"resourceClaimTemplateName":"b"}: at most one of `resourceClaimName` or '
            "`resourceClaimTemplateName` may be specified"
        ]

    def test_claims_have_distinct_names(self) -> None:
        claim = {"name": "gpu", "resourceClaimName": "a"}
        assert created(resourceClaims=[claim, claim]) == [
            'spec.resourceClaims[1].name: Duplicate value: "gpu"'
        ]

    def test_a_container_uses_claims_of_its_pod(self) -> None:
        assert created_with(resources={"claims": [{"name": "gpu"}]}) == [
            'spec.containers[0].resources.claims[0]: Not found: "gpu": '
            "must be one of the names in pod.spec.resourceClaims which is empty"
        ]

    @pytest.mark.parametrize(
        ("used", "duplicate"),
        [
            ([{"name": "gpu"}, {"name": "gpu"}], "gpu"),
            ([{"name": "gpu"}, {"name": "gpu", "request": "a"}], "gpu"),
            ([{"name": "gpu", "request": "a"}, {"name": "gpu"}], "gpu"),
            ([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "a"}], "gpu/a"),
        ],
    )
    def test_a_container_uses_a_claim_whole_or_by_requests_but_once(
        self, used: list[dict[str, str]], duplicate: str
    ) -> None:
        claims = [{"name": "gpu", "resourceClaimName": "a"}]
        errors = created(resourceClaims=claims, containers=[container(resources={"claims": used})])
        assert errors == [f'spec.containers[0].resources.claims[1]: Duplicate value: "{duplicate}"']

    def test_two_requests_of_a_claim_may_be_used(self) -> None:
        claims = [{"name": "gpu", "resourceClaimName": "a"}]
        used = [{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}]
        assert not created(
            resourceClaims=claims, containers=[container(resources={"claims": used})]
        )

    def test_a_static_pod_has_no_claims(self) -> None:
        claims = [{"name": "gpu", "resourceClaimName": "a"}]
        pod = objects.pod(
            objects.pod_spec(resourceClaims=claims, nodeName="n"),
            metadata=objects.metadata(annotations={"kubernetes.io/config.mirror": "x"}),
        )
        assert objects.created("Pod", pod) == [
            "[]: Forbidden: static pods do not support resource claims"
        ]


class TestContainers:
    def test_a_pod_needs_a_container(self) -> None:
        assert created(containers=[]) == ["spec.containers: Required value"]

    def test_a_container_needs_name_and_image(self) -> None:
        assert created(containers=[{}]) == [
            "spec.containers[0].name: Required value",
            "spec.containers[0].image: Required value",
        ]

    def test_names_are_distinct_among_all_containers(self) -> None:
        assert created(containers=[container(), container()]) == [
            'spec.containers[1].name: Duplicate value: "main"'
        ]
        assert created(initContainers=[container()]) == [
            'spec.initContainers[0].name: Duplicate value: "main"'
        ]

    def test_an_image_is_trimmed(self) -> None:
        assert created_with(image=" busybox") == [
            'spec.containers[0].image: Invalid value: " busybox": '
            "must not have leading or trailing whitespace"
        ]

    def test_ports_are_numbers_with_distinct_names(self) -> None:
        ports = [{"name": "http", "containerPort": 80}, {"name": "http", "containerPort": 70000}]
        assert created_with(ports=ports) == [
            'spec.containers[0].ports[1].name: Duplicate value: "http"',
            "spec.containers[0].ports[1].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive",
        ]

    def test_a_port_of_the_node_is_used_once(self) -> None:
        ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
        assert created_with(ports=ports) == [
            'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"'
        ]

    def test_a_variable_has_a_name_and_one_source(self) -> None:
        variables = [{"name": ""}, {"name": "A=B"}, {"name": "A", "valueFrom": {}}]
        assert created_with(env=variables) == [
            "spec.containers[0].env[0].name: Required value",
            'spec.containers[0].env[1].name: Invalid value: "A=B": a valid environment variable '
            "name must consist only of printable ASCII characters other than '='",
            'spec.containers[0].env[2].valueFrom: Invalid value: "": must specify one of: '
            "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ]

    @pytest.mark.parametrize(
        ("field", "message"),
        [
            (
                "status.phase",
                'Unsupported value: "status.phase": supported values: "metadata.name", '
                '"metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
                '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"',
            ),
            (
                "spec.unknown",
                'Invalid value: "spec.unknown": error converting fieldPath: '
                "field label not supported: spec.unknown",
            ),
        ],
    )
    def test_a_variable_names_a_field_that_pods_offer(self, field: str, message: str) -> None:
        variable = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": field}}}
        path = "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"
        assert created_with(env=[variable]) == [f"{path}: {message}"]

    def test_a_variable_may_name_a_label(self) -> None:
        reference = {"fieldRef": {"fieldPath": "metadata.labels['app']"}}
        assert not created_with(env=[{"name": "A", "valueFrom": reference}])

    def test_a_mount_names_a_volume_and_a_place_of_its_own(self) -> None:
        mounts = [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x"}]
        errors = created(volumes=[{"name": "a"}], containers=[container(volumeMounts=mounts)])
        assert errors == [
            'spec.containers[0].volumeMounts[1].name: Not found: "b"',
            'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
        ]

    def test_a_probe_has_one_handler(self) -> None:
        probe = {"exec": {"command": ["true"]}, "tcpSocket": {"port": 80}}
        assert created_with(livenessProbe={}, readinessProbe=probe) == [
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
            "spec.containers[0].readinessProbe.tcpSocket: Forbidden: "
            "may not specify more than 1 handler type",
        ]

    def test_a_container_that_ends_is_not_probed(self) -> None:
        probe = {"exec": {"command": ["true"]}}
        assert created(initContainers=[container(name="setup", livenessProbe=probe)]) == [
            "spec.initContainers[0].livenessProbe: Forbidden: "
            "may not be set for init containers without restartPolicy=Always"
        ]
        sidecar = container(name="side", restartPolicy="Always", livenessProbe=probe)
        assert not created(initContainers=[sidecar])

    def test_restart_rules_need_a_policy_and_exit_codes(self) -> None:
        assert created_with(restartPolicyRules=[{"action": "Restart"}]) == [
            "spec.containers[0].restartPolicy: Required value: "
            "must specify restartPolicy when restart rules are used",
            "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
        ]

    def test_escalation_cannot_be_both_denied_and_granted(self) -> None:
        context = {"allowPrivilegeEscalation": False, "privileged": True}
        (message,) = created_with(securityContext=context)
        assert message.startswith("spec.containers[0].securityContext: Invalid value: {")
        assert message.endswith(
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        )


class TestResources:
    @pytest.mark.parametrize(
        ("resources", "message"),
        [
            (
                {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                '.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
            ),
            (
                {"requests": {"cpu": "-1"}},
                '.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ),
            (
                {"requests": {"example.com/gpu": "1"}},
                ".limits: Required value: Limit must be set for non overcommitable resources",
            ),
            (
                {"limits": {"example.com/gpu": "500m"}, "requests": {"example.com/gpu": "500m"}},
                '.limits[example.com/gpu]: Invalid value: "500m": must be an integer',
            ),
            (
                {"requests": {"pods": "1"}},
                '.requests[pods]: Invalid value: "pods": '
                "must be a standard resource for containers",
            ),
            (
                {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}},
                ": Forbidden: HugePages require cpu or memory",
            ),
            (
                {
                    "limits": {"hugepages-2Mi": "3Mi", "cpu": "1"},
                    "requests": {"hugepages-2Mi": "3Mi", "cpu": "1"},
                },
                '.limits[hugepages-2Mi]: Invalid value: "3Mi": '
                "3Mi is not positive integer multiple of hugepages-2Mi",
            ),
        ],
    )
    def test_amounts_make_sense(self, resources: dict[str, Any], message: str) -> None:
        assert f"spec.containers[0].resources{message}" in created_with(resources=resources)

    def test_a_pod_asks_for_at_least_as_much_as_its_containers(self) -> None:
        (message,) = created(
            resources={"requests": {"cpu": "1"}},
            containers=[container(resources={"requests": {"cpu": "2"}})],
        )
        assert message == (
            'spec.resources.requests[cpu]: Invalid value: "1": '
            "must be greater than or equal to aggregate container requests of 2"
        )


class TestVolumes:
    @pytest.mark.parametrize(
        ("volume", "message"),
        [
            ({"name": "a", "hostPath": {"path": ""}}, ".hostPath.path: Required value"),
            (
                {"name": "a", "hostPath": {"path": "/a/../b"}},
                ".hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            ),
            ({"name": "a", "secret": {}}, ".secret.secretName: Required value"),
            (
                {"name": "a", "configMap": {"name": "c", "items": [{"key": "k", "path": "/x"}]}},
                '.configMap.items[0].path: Invalid value: "/x": must be a relative path',
            ),
            (
                {"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}},
                ".hostPath: Forbidden: may not specify more than 1 volume type",
            ),
            (
                {"name": "a", "persistentVolumeClaim": {}},
                ".persistentVolumeClaim.claimName: Required value",
            ),
        ],
    )
    def test_a_volume_has_one_good_source(self, volume: dict[str, Any], message: str) -> None:
        assert created(volumes=[volume]) == [f"spec.volumes[0]{message}"]

    def test_volumes_have_distinct_names(self) -> None:
        assert created(volumes=[{"name": "a"}, {"name": "a"}]) == [
            'spec.volumes[1].name: Duplicate value: "a"'
        ]

    def test_projected_files_do_not_collide(self) -> None:
        item = {"key": "k", "path": "same"}
        sources = [
            {"secret": {"name": "s", "items": [item]}},
            {"configMap": {"name": "c", "items": [item]}},
        ]
        assert created(volumes=[{"name": "a", "projected": {"sources": sources}}]) == [
            'spec.volumes[0].projected: Invalid value: "c": conflicting duplicate paths'
        ]


class TestPlacement:
    @pytest.mark.parametrize(
        ("toleration", "message"),
        [
            (
                {"operator": "Equal"},
                '.operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"',
            ),
            (
                {"key": "a", "operator": "Exists", "value": "b"},
                ".operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
            ),
            (
                {"key": "a", "effect": "Never"},
                '.effect: Unsupported value: "Never": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
            ),
            (
                {"key": "a", "tolerationSeconds": 5},
                ".effect: Invalid value: \"\": effect must be 'NoExecute' when "
                "`tolerationSeconds` is set",
            ),
        ],
    )
    def test_tolerations_make_sense(self, toleration: dict[str, Any], message: str) -> None:
        assert created(tolerations=[toleration]) == [f"spec.tolerations[0]{message}"]

    def test_preferred_nodes_may_have_impossible_labels(self) -> None:
        expression = {"key": "a", "operator": "In", "values": ["not a label!"]}
        preferred = [{"weight": 1, "preference": {"matchExpressions": [expression]}}]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        assert not created(affinity=affinity)

    def test_required_nodes_may_not(self) -> None:
        expression = {"key": "a", "operator": "In", "values": ["not a label!"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        (message,) = created(affinity=affinity)
        assert ".nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value" in message

    def test_pods_are_spread_over_something(self) -> None:
        constraint = {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Sometimes"}
        assert created(topologySpreadConstraints=[constraint]) == [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: "
            "must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Sometimes": '
            'supported values: "DoNotSchedule", "ScheduleAnyway"',
        ]

    def test_a_gated_pod_has_no_node(self) -> None:
        assert created(nodeName="n", schedulingGates=[{"name": "a"}]) == [
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
        ]

    def test_gates_are_distinct(self) -> None:
        assert created(schedulingGates=[{"name": "a"}, {"name": "a"}]) == [
            'spec.schedulingGates[1]: Duplicate value: "a"'
        ]


class TestSpec:
    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (
                {"restartPolicy": "Sometimes"},
                'restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"',
            ),
            (
                {"dnsPolicy": "None"},
                "dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
            ),
            (
                {"activeDeadlineSeconds": 0},
                "activeDeadlineSeconds: Invalid value: 0: "
                "must be between 1 and 2147483647, inclusive",
            ),
            (
                {"hostAliases": [{"ip": "010.0.0.1"}]},
                'hostAliases[0].ip: Invalid value: "010.0.0.1": must not have leading 0s',
            ),
            (
                {"hostUsers": False, "hostPID": True},
                "HostPID: Forbidden: when `hostUsers` is false",
            ),
            (
                {"schedulingGroup": {}},
                "schedulingGroup.podGroupName: Invalid value: null: "
                "must specify one of: `podGroupName`",
            ),
            (
                {"preemptionPolicy": "Maybe"},
                'preemptionPolicy: Unsupported value: "Maybe": '
                'supported values: "PreemptLowerPriority", "Never"',
            ),
        ],
    )
    def test_fields_have_their_values(self, spec: dict[str, Any], message: str) -> None:
        assert created(**spec) == [f"spec.{message}"]

    def test_all_errors_are_found_at_once(self) -> None:
        assert len(created(restartPolicy="x", dnsPolicy="y", nodeName="Z!", containers=[{}])) == 5

    def test_ephemeral_containers_come_later(self) -> None:
        assert created(ephemeralContainers=[container(name="debug")]) == [
            "spec.ephemeralContainers: Forbidden: cannot be set on create"
        ]

    def test_a_mirror_pod_has_a_node(self) -> None:
        annotated = objects.metadata(annotations={"kubernetes.io/config.mirror": "x"})
        assert objects.created("Pod", objects.pod(metadata=annotated)) == [
            'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": '
            "must set spec.nodeName if mirror pod annotation is set"
        ]


class TestUpdate:
    def updated(self, new: dict[str, Any], old: dict[str, Any]) -> list[str]:
        return objects.updated(
            "Pod", objects.pod(objects.pod_spec(**new)), objects.pod(objects.pod_spec(**old))
        )

    def test_an_image_may_change(self) -> None:
        assert not self.updated({"containers": [container(image="other")]}, {})

    def test_tolerations_may_be_added(self) -> None:
        assert not self.updated({"tolerations": [{"key": "a", "operator": "Exists"}]}, {})

    def test_tolerations_may_not_be_removed(self) -> None:
        assert self.updated({}, {"tolerations": [{"key": "a", "operator": "Exists"}]}) == [
            "spec.tolerations: Forbidden: "
            "existing toleration can not be modified except its tolerationSeconds"
        ]

    def test_gates_may_be_removed_but_not_added(self) -> None:
        gates = {"schedulingGates": [{"name": "a"}]}
        assert not self.updated({}, gates)
        assert self.updated(gates, {}) == [
            "spec.schedulingGates[0].name: Forbidden: "
            "only deletion is allowed, but found new scheduling gate 'a'"
        ]

    def test_a_deadline_may_only_come_forward(self) -> None:
        early, late = {"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 10}
        assert not self.updated(early, late)
        assert self.updated(late, early) == [
            "spec.activeDeadlineSeconds: Invalid value: 10: "
            "must be less than or equal to previous value"
        ]

    def test_containers_may_not_be_added(self) -> None:
        both = {"containers": [container(), container(name="other")]}
        assert self.updated(both, {}) == [
            "spec.containers: Forbidden: pod updates may not add or remove containers"
        ]

    def test_nothing_else_may_change_and_what_did_is_named(self) -> None:
        (message,) = self.updated({"hostname": "b"}, {"hostname": "a"})
        assert message.startswith(
            "spec: Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
        )
        assert message.endswith("; changed: spec.hostname")

    def test_claims_may_not_change(self) -> None:
        new = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "b"}]}
        old = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}]}
        (message,) = self.updated(new, old)
        assert message.endswith("; changed: spec.resourceClaims[0].resourceClaimName")

    def test_a_gated_pod_may_be_given_fewer_nodes(self) -> None:
        gates = {"schedulingGates": [{"name": "a"}]}
        old = {**gates, "nodeSelector": {"a": "1"}}
        assert not self.updated({**gates, "nodeSelector": {"a": "1", "b": "2"}}, old)
        assert self.updated({**gates, "nodeSelector": {"b": "2"}}, old) == [
            'spec.nodeSelector: Invalid value: {"b":"2"}: '
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        ]

    def test_the_same_amount_in_other_words_is_no_change(self) -> None:
        def asking(memory: str) -> dict[str, Any]:
            return {"containers": [container(resources={"requests": {"memory": memory}})]}

        assert not self.updated(asking("1024Mi"), asking("1Gi"))
