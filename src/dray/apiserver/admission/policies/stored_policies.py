"""The policies and bindings that are in the store, followed and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from dray.api import kinds
from dray.api.types.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from dray.apiserver.admission.admission_chain import AdmissionRequest
from dray.apiserver.admission.policies import matching
from dray.apiserver.admission.policies.compiled_policies import CompiledPolicy
from dray.apiserver.admission.policies.matching import Foreseen
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.lookup import Reader
from dray.store.store import Entry, Store

POLICIES: Final = kinds.VALIDATING_ADMISSION_POLICY
BINDINGS: Final = kinds.VALIDATING_ADMISSION_POLICY_BINDING

T = TypeVar("T")


class BoundPolicy(NamedTuple):
    """A policy that may be about a request, with its bindings in the order of their names."""

    policy: ValidatingAdmissionPolicy
    bindings: Sequence[ValidatingAdmissionPolicyBinding]
    match: Foreseen
    compiled: CompiledPolicy


class StoredPolicies:
    """All policies and bindings, each policy compiled once."""

    def __init__(self) -> None:
        self.policies: dict[str, ValidatingAdmissionPolicy] = {}
        self._bindings: dict[str, ValidatingAdmissionPolicyBinding] = {}
        self._compiled: dict[str, tuple[tuple[str, int], CompiledPolicy]] = {}
        self._by_policy: dict[str, list[ValidatingAdmissionPolicyBinding]] | None = None
        self._candidates: dict[tuple[str, ...], Sequence[BoundPolicy]] = {}

    def followers(self, store: Store) -> list[StoreFollower]:
        policies = _Copy(POLICIES, ValidatingAdmissionPolicy, self.policies, self._changed)
        bindings = _Copy(BINDINGS, ValidatingAdmissionPolicyBinding, self._bindings, self._changed)
        return [
            StoreFollower(store, store_keys.prefix(POLICIES), policies),
            StoreFollower(store, store_keys.prefix(BINDINGS), bindings),
        ]

    def _changed(self) -> None:
        self._by_policy = None
        self._candidates = {}

    def candidates(self, admission: AdmissionRequest) -> Sequence[BoundPolicy]:
        """Return the policies that may be about a request, in the order of their names.

        They are found once for each resource and operation.
        """
        if not self._bindings:
            return ()
        kind = admission.kind
        key = (
            *(kind.group, kind.plural, admission.version),
            *(admission.subresource, admission.operation),
        )
        known = self._candidates.get(key)
        if known is None:
            known = self._candidates[key] = tuple(self._find(admission))
        return known

    def _find(self, admission: AdmissionRequest) -> Iterator[BoundPolicy]:
        for name, bindings in self._bound().items():
            policy = self.policies[name]
            match = Foreseen(None, False)
            if policy.spec.match_constraints is not None:
                match = matching.foreseen(policy.spec.match_constraints, admission)
            if match.resource is not None or not match.is_certain:
                yield BoundPolicy(policy, bindings, match, self._compile(policy))

    def _bound(self) -> Mapping[str, Sequence[ValidatingAdmissionPolicyBinding]]:
        """Return the bindings of the policies that exist, both in the order of their names."""
        if self._by_policy is None:
            found: dict[str, list[ValidatingAdmissionPolicyBinding]] = {}
            for name in sorted(self._bindings):
                binding = self._bindings[name]
                if binding.spec.policy_name in self.policies:
                    found.setdefault(binding.spec.policy_name, []).append(binding)
            self._by_policy = dict(sorted(found.items()))
            self._compiled = {
                name: self._compiled[name] for name in self._by_policy if name in self._compiled
            }
        return self._by_policy

    def _compile(self, policy: ValidatingAdmissionPolicy) -> CompiledPolicy:
        name, version = policy.metadata.name, (policy.metadata.uid, policy.metadata.generation)
        known = self._compiled.get(name)
        if known is None or known[0] != version:
            known = self._compiled[name] = (version, CompiledPolicy.of(policy.spec))
        return known[1]


class _Copy(Generic[T]):
    """Keeps the objects of one kind by name."""

    def __init__(
        self, kind: kinds.Kind, type_: type[T], objects: dict[str, T], changed: Callable[[], None]
    ) -> None:
        self._prefix = store_keys.prefix(kind)
        self._reader = Reader(type_)
        self._objects = objects
        self._changed = changed

    def put(self, entry: Entry) -> None:
        self._objects[entry.key.removeprefix(self._prefix)] = self._reader.read(entry)
        self._changed()

    def remove(self, key: str) -> None:
        self._objects.pop(key.removeprefix(self._prefix), None)
        self._changed()
