"""Admission rules that fill in new nodes, pods and PodGroups."""

from __future__ import annotations

from collections.abc import Callable

from dray.api import kinds, well_known
from dray.api.features import Features
from dray.api.types.core import ServiceAccount
from dray.api.types.meta import JsonObject
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store


class TaintNewNodes(AdmissionRule):
    about = frozenset({"Node"})
    operations = frozenset({admission_chain.CREATE})

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not admission.is_about("", "Node"):
            return
        spec = admission.document.setdefault("spec", {})
        taints = spec.get("taints") or []
        not_ready = {"key": well_known.NODE_NOT_READY, "effect": well_known.NO_SCHEDULE}
        if not any(not_ready.items() <= taint.items() for taint in taints):
            spec["taints"] = [*taints, not_ready]


DEFAULT_ACCOUNT = "default"
TOKEN_VOLUME_PREFIX = "kube-api-access-"
TOKEN_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
TOLERATED_SECONDS = 300
_TOLERATED = (well_known.NODE_NOT_READY, well_known.NODE_UNREACHABLE)


class DefaultTolerations(AdmissionRule):
    """Adds tolerations of lost nodes for some minutes to pods that have none."""

    about = frozenset({"Pod"})

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not admission.is_about("", "Pod") or admission.new is None:
            return
        spec = admission.new.setdefault("spec", {})
        given: list[JsonObject] = spec.get("tolerations") or []
        added = [_toleration(key) for key in _TOLERATED if not _has_toleration(given, key)]
        if added:
            spec["tolerations"] = [*given, *added]


def _has_toleration(tolerations: list[JsonObject], key: str) -> bool:
    return any(
        toleration.get("key") in (None, "", key)
        and toleration.get("effect") in (None, "", well_known.NO_EXECUTE)
        for toleration in tolerations
    )


def _toleration(key: str) -> JsonObject:
    return {
        "key": key,
        "operator": "Exists",
        "effect": well_known.NO_EXECUTE,
        "tolerationSeconds": TOLERATED_SECONDS,
    }


class PodServiceAccount(AdmissionRule):
    """Sets the service account of pods.

    The account `default` may be missing: its controller creates one in every namespace, and a pod
    that is earlier is admitted all the same. `mounts_tokens` adds the projected volume with the
    account's token, as Kubernetes does.
    """

    about = frozenset({"Pod"})
    operations = frozenset({admission_chain.CREATE})

    def __init__(
        self, store: Store, new_suffix: Callable[[], str], *, mounts_tokens: bool = False
    ) -> None:
        self._accounts = Lookup(store, kinds.SERVICE_ACCOUNT, ServiceAccount)
        self._new_suffix = new_suffix
        self._mounts_tokens = mounts_tokens

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not admission.is_about("", "Pod"):
            return
        pod = admission.document
        spec = pod.setdefault("spec", {})
        if well_known.MIRROR_POD_ANNOTATION in (pod["metadata"].get("annotations") or {}):
            _check_mirror(admission, spec)
            return
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT_ACCOUNT
        account = await self._account(admission, spec["serviceAccountName"])
        if self._mounts_tokens and _wants_token(spec, account):
            self._mount_token(spec)
        if not spec.get("imagePullSecrets") and account.image_pull_secrets:
            spec["imagePullSecrets"] = [
                {"name": secret.name} for secret in account.image_pull_secrets
            ]

    async def _account(self, admission: AdmissionRequest, name: str) -> ServiceAccount:
        account = await self._accounts.get(name, admission.namespace)
        if account is not None:
            return account
        if name == DEFAULT_ACCOUNT:
            return ServiceAccount()
        raise admission.forbidden(
            f"error looking up service account {admission.namespace}/{name}: "
            f'serviceaccount "{name}" not found'
        )

    def _mount_token(self, spec: JsonObject) -> None:
        volumes: list[JsonObject] = spec.get("volumes") or []
        names = [volume["name"] for volume in volumes]
        existing = next((name for name in names if name.startswith(TOKEN_VOLUME_PREFIX)), None)
        name = existing or TOKEN_VOLUME_PREFIX + self._new_suffix()
        if _mount(spec, name) and not existing:
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_sources()}]


def _check_mirror(admission: AdmissionRequest, spec: JsonObject) -> None:
    """Raise Forbidden if a mirror pod, which a node makes itself, uses API objects."""
    if spec.get("serviceAccountName"):
        raise admission.forbidden("a mirror pod may not reference service accounts")
    for volume in spec.get("volumes") or ():
        if "secret" in volume:
            raise admission.forbidden("a mirror pod may not reference secrets")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "serviceAccountToken" in source:
                raise admission.forbidden(
                    "a mirror pod may not use ServiceAccountToken volume projections"
                )


def _wants_token(spec: JsonObject, account: ServiceAccount) -> bool:
    """Return whether to mount a token: the pod's field wins over the account's."""
    setting = spec.get("automountServiceAccountToken")
    if setting is None:
        setting = account.automount_service_account_token
    return setting is None or bool(setting)


def _mount(spec: JsonObject, name: str) -> bool:
    """Mount the volume unless the path is in use. Returns whether any container needed it."""
    needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != TOKEN_MOUNT_PATH for mount in mounts):
            mount = {"name": name, "readOnly": True, "mountPath": TOKEN_MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    return needed


def _token_sources() -> JsonObject:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    authority = {"key": "ca.crt", "path": "ca.crt"}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [authority]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
    }


class ProtectPodGroups(AdmissionRule):
    about = frozenset({"PodGroup"})
    operations = frozenset({admission_chain.CREATE})

    def __init__(self, features: Features) -> None:
        self._is_enabled = features.generic_workload

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not self._is_enabled or admission.subresource:
            return
        finalizers = admission.document["metadata"].setdefault("finalizers", [])
        if well_known.POD_GROUP_FINALIZER not in finalizers:
            finalizers.append(well_known.POD_GROUP_FINALIZER)
