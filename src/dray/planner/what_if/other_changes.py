"""Changes of what is neither a node nor a device: pods that are left out, feature gates."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.features import Features
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_status
from dray.api.types.pods import Pod
from dray.planner.cluster_model import ClusterModel
from dray.planner.what_if import evictions, freed_quotas
from dray.planner.what_if.changes import Changed, ImpossibleChange, unknown


@dataclass(frozen=True, slots=True)
class RemovePod:
    """A pod that is not there. Its claims are freed, and its controller does not make another."""

    pod: ObjectKey

    def apply(self, cluster: ClusterModel) -> Changed:
        pods = [pod for pod in cluster.of(Pod) if pod.metadata.key == self.pod]
        if not pods:
            namespace = self.pod.namespace
            names = {
                pod.metadata.name for pod in cluster.of(Pod) if pod.metadata.namespace == namespace
            }
            raise unknown("pod", self.pod.name, names, f" in namespace {namespace}")
        if any(map(pod_status.has_ended, pods)):
            raise ImpossibleChange(f"pod {self.pod} has ended: it uses nothing any more")
        left = evictions.without_pods(cluster, pods)
        return Changed(left.with_objects(freed_quotas.freed(cluster, pods)), removed=pods)


@dataclass(frozen=True, slots=True)
class SetFeatures:
    """Other feature gates."""

    features: Features

    def apply(self, cluster: ClusterModel) -> Changed:
        if self.features == cluster.features:
            raise ImpossibleChange("the cluster has these feature gates already")
        return Changed(ClusterModel(cluster.objects, self.features))
