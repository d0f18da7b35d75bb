"""Composition of the API server: admission rules in order, body hooks, subresources."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from dray.api import kinds
from dray.api.features import Features
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.apiserver.admission import claim_warnings
from dray.apiserver.admission.admin_access import AdminAccess
from dray.apiserver.admission.administrator_settings import AdministratorSettings
from dray.apiserver.admission.admission_chain import AdmissionChain, AdmissionRequest
from dray.apiserver.admission.claim_status_authorization import ClaimStatusAuthorization
from dray.apiserver.admission.claim_warnings import ClaimWarnings
from dray.apiserver.admission.creation_defaults import (
    DefaultTolerations,
    PodServiceAccount,
    ProtectPodGroups,
    TaintNewNodes,
)
from dray.apiserver.admission.device_guards import DeviceGuards
from dray.apiserver.admission.namespace_lifecycle import ProtectNamespaces, RequireNamespace
from dray.apiserver.admission.node_declared_features import NodeAllocatableSlices
from dray.apiserver.admission.node_restriction import NodeRestriction
from dray.apiserver.admission.partition_rule import PartitionRequests
from dray.apiserver.admission.pods.limit_ranges import LimitRanges
from dray.apiserver.admission.pods.runtime_classes import RuntimeClasses
from dray.apiserver.admission.policies.param_access import ParamAccess
from dray.apiserver.admission.policies.policy_rule import ValidatingPolicies
from dray.apiserver.admission.policies.stored_policies import StoredPolicies
from dray.apiserver.admission.priority_classes import Priorities
from dray.apiserver.admission.quotas import Quotas
from dray.apiserver.admission.rbac_escalation import NoEscalation
from dray.apiserver.app import Subresource
from dray.apiserver.node_agents import NodeAgents
from dray.apiserver.request.bodies import BodyHooks
from dray.apiserver.request.call import Clock
from dray.apiserver.storage.device_usage import DeviceUsage
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.apiserver.subresources.access_reviews import Reviews
from dray.apiserver.subresources.bindings import Bindings
from dray.apiserver.subresources.evictions import Evictions
from dray.apiserver.subresources.finalization import Finalization
from dray.apiserver.subresources.pod_logs_exec import PodAccess
from dray.apiserver.subresources.scale import Scales
from dray.apiserver.subresources.token_requests import TokenRequests
from dray.apiserver.verbs.deletion import Deleter
from dray.apiserver.verbs.writes import Writer
from dray.partitions import expansion
from dray.store.store import Store

SCALED = ("deployments", "replicasets", "statefulsets", "replicationcontrollers")

Route = tuple[str, str, str]


class RuleDependencies(NamedTuple):
    """The dependencies of admission rules."""

    store: Store
    features: Features
    authorizer: Authorizer
    published: PublishedSlices
    policies: StoredPolicies
    usage: DeviceUsage
    now: Clock
    new_suffix: Callable[[], str]
    mounts_tokens: bool = False


def build_admission_chain(dependencies: RuleDependencies) -> AdmissionChain:
    """Return the rules in the order of pkg/kubeapiserver/options/plugins.go, quotas last."""
    store, features = dependencies.store, dependencies.features
    quotas = Quotas(store, dependencies.now)
    devices = DeviceGuards(store, dependencies.usage, features)
    rules = (
        RequireNamespace(store),
        ProtectNamespaces(),
        LimitRanges(store),
        PodServiceAccount(store, dependencies.new_suffix, mounts_tokens=dependencies.mounts_tokens),
        NodeRestriction(store),
        TaintNewNodes(),
        ProtectPodGroups(features),
        Priorities(store),
        DefaultTolerations(),
        RuntimeClasses(store),
        NoEscalation(dependencies.authorizer),
        ParamAccess(store, dependencies.authorizer),
        AdministratorSettings(dependencies.authorizer),
        PartitionRequests(store, dependencies.published, features),
        AdminAccess(store),
        ClaimStatusAuthorization(dependencies.authorizer, features),
        NodeAllocatableSlices(store, features),
        ClaimWarnings(dependencies.published, features),
        ValidatingPolicies(store, dependencies.policies, dependencies.authorizer),
        devices,
        quotas,
    )

    def commit_lock(admission: AdmissionRequest) -> contextlib.AbstractAsyncContextManager[None]:
        # Quotas count whole objects, devices are in the status: no change concerns both.
        is_about_devices = admission.subresource and devices.concerns(admission)
        concerned = devices if is_about_devices else quotas
        return concerned.commit_lock(admission)

    return AdmissionChain(rules, commit_lock)


def body_hooks(features: Features) -> Mapping[tuple[str, str], BodyHooks]:
    """Return what kinds add to the reading of their objects, by group and kind."""
    hooks = BodyHooks(creation_warnings=claim_warnings.zero_counts)
    if features.partition_request:
        hooks = hooks._replace(transform=expansion.move_to_annotation)
    return {
        (kind.group, kind.kind): hooks
        for kind in (kinds.RESOURCE_CLAIM, kinds.RESOURCE_CLAIM_TEMPLATE)
    }


class SubresourceHandlers(NamedTuple):
    """The dependencies of subresources."""

    store: Store
    chain: AdmissionChain
    writer: Writer
    deleter: Deleter
    authorizer: Authorizer
    authenticator: Authenticator
    signer: TokenSigner
    new_uid: Callable[[], str]
    agents: NodeAgents


def subresources(handlers: SubresourceHandlers) -> Mapping[Route, Subresource]:
    """Return the handlers by method, plural and subresource."""
    return dict((*_changes(handlers), *_reviews(handlers)))


def _changes(handlers: SubresourceHandlers) -> Iterator[tuple[Route, Subresource]]:
    bindings = Bindings.over(handlers.store, handlers.chain)
    evictions = Evictions(handlers.store, handlers.chain, handlers.deleter)
    tokens = TokenRequests(handlers.store, handlers.chain, handlers.signer, handlers.new_uid)
    scales = Scales(handlers.store, handlers.writer)
    yield ("POST", "bindings", ""), bindings.create
    yield ("POST", "pods", "binding"), bindings.create
    yield ("POST", "pods", "eviction"), evictions.create
    yield ("POST", "serviceaccounts", "token"), tokens.create
    yield ("PUT", "namespaces", "finalize"), Finalization(handlers.store, handlers.chain).update
    access = PodAccess(handlers.store, handlers.chain, handlers.agents, handlers.authorizer.refusal)
    yield ("GET", "pods", "log"), access.log
    for subresource in ("exec", "attach"):
        yield ("GET", "pods", subresource), access.connect
        yield ("POST", "pods", subresource), access.connect
    for method in ("GET", "POST"):
        yield (method, "pods", "portforward"), access.forward
    for plural in SCALED:
        yield ("GET", plural, "scale"), scales.get
        yield ("PUT", plural, "scale"), scales.update
        yield ("PATCH", plural, "scale"), scales.patch


def _reviews(handlers: SubresourceHandlers) -> Iterator[tuple[Route, Subresource]]:
    reviews = Reviews(handlers.authorizer, handlers.authenticator)
    handlers_by_plural: Mapping[str, Subresource] = {
        "selfsubjectaccessreviews": reviews.self_subject_access,
        "selfsubjectrulesreviews": reviews.self_subject_rules,
        "selfsubjectreviews": reviews.self_subject,
        "subjectaccessreviews": reviews.subject_access,
        "localsubjectaccessreviews": reviews.local_subject_access,
        "tokenreviews": reviews.token,
    }
    for plural, handler in handlers_by_plural.items():
        yield ("POST", plural, ""), handler
