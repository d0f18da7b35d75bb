"""All pods, by name, by node and by PodGroup."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, TypeVar

from dray.api.ids import ObjectKey
from dray.api.semantics import pod_claims
from dray.api.types.pods import Pod

Key = TypeVar("Key", bound=Hashable)


class PodIndex:
    """Pods with or without a node. A pod that has ended is not among them."""

    def __init__(self) -> None:
        self._pods: dict[ObjectKey, Pod] = {}
        self._by_node: _Groups[str] = _Groups()
        self._by_group: _Groups[ObjectKey] = _Groups()

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._pods.values())

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: ObjectKey) -> Pod | None:
        return self._pods.get(key)

    def on_node(self, name: str) -> Collection[Pod]:
        """Return the pods that are bound to a node."""
        return self._by_node.members(name)

    def in_group(self, key: ObjectKey) -> Collection[Pod]:
        """Return the pods of a PodGroup."""
        return self._by_group.members(key)

    def put(self, pod: Pod) -> None:
        """Add or update a pod."""
        key = pod.metadata.key
        before = self._pods.get(key)
        self._pods[key] = pod
        # Entries are replaced in place: the order of pods is that of their arrival.
        old_node = before.spec.node_name if before else None
        old_group = group_key(before) if before else None
        self._by_node.move(key, pod, old_node, pod.spec.node_name)
        self._by_group.move(key, pod, old_group, group_key(pod))

    def drop(self, key: ObjectKey) -> Pod | None:
        """Remove and return a pod; None if there is no such pod."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            self._by_node.move(key, pod, pod.spec.node_name, None)
            self._by_group.move(key, pod, group_key(pod), None)
        return pod


def group_key(pod: Pod) -> ObjectKey | None:
    """Return the key of the pod's PodGroup; None if it names none."""
    name = pod_claims.group_name(pod)
    return ObjectKey(pod.metadata.namespace, name) if name else None


class _Groups(Generic[Key]):
    """Pods by some key; keys without pods are removed."""

    def __init__(self) -> None:
        self._members: dict[Key, dict[ObjectKey, Pod]] = {}

    def members(self, group: Key) -> Collection[Pod]:
        return self._members.get(group, {}).values()

    def move(self, key: ObjectKey, pod: Pod, before: Key | None, after: Key | None) -> None:
        """File a pod under `after` instead of `before`; empty keys mean nowhere."""
        if before and before != after:
            members = self._members[before]
            del members[key]
            if not members:
                del self._members[before]
        if after:
            self._members.setdefault(after, {})[key] = pod
