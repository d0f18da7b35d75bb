"""Volumes of a pod, in the forms a node agent can make without a storage driver."""

from __future__ import annotations

import msgspec

from dray.api.types.containers import ObjectFieldSelector, ResourceFieldSelector
from dray.api.types.meta import LabelSelector, Wire


class KeyToPath(Wire, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class EmptyDirVolumeSource(Wire, frozen=True):
    medium: str = ""
    mode: int | None = None
    size_limit: str | None = None


class HostPathVolumeSource(Wire, frozen=True):
    path: str = ""
    type: str | None = None


class SecretVolumeSource(Wire, frozen=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


class ConfigMapVolumeSource(Wire, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


class DownwardAPIVolumeFile(Wire, frozen=True):
    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(Wire, frozen=True):
    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: int | None = None


class SecretProjection(Wire, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class ConfigMapProjection(Wire, frozen=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class DownwardAPIProjection(Wire, frozen=True):
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ServiceAccountTokenProjection(Wire, frozen=True):
    audience: str = ""
    expiration_seconds: int | None = None
    path: str = ""


class ClusterTrustBundleProjection(Wire, frozen=True):
    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: str = ""


class VolumeProjection(Wire, frozen=True):
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(default=None, name="downwardAPI")
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None


class ProjectedVolumeSource(Wire, frozen=True):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None


class PersistentVolumeClaimVolumeSource(Wire, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(Wire, frozen=True):
    reference: str = ""
    pull_policy: str = ""


class Volume(Wire, frozen=True):
    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    image: ImageVolumeSource | None = None
