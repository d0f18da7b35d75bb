"""Names with a meaning to Kubernetes or dray: labels, annotations, finalizers, taints, reasons."""

from __future__ import annotations

from typing import Final

# Taint effects, of nodes and of devices.
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

# Taints that the node lifecycle controller sets.
NODE_NOT_READY: Final = "node.kubernetes.io/not-ready"
NODE_UNREACHABLE: Final = "node.kubernetes.io/unreachable"

# Namespaces.
NODE_LEASE_NAMESPACE: Final = "kube-node-lease"

# Labels and annotations.
ADMIN_ACCESS_LABEL: Final = "resource.kubernetes.io/admin-access"
POD_CLAIM_NAME_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
REVISION_LABEL: Final = "controller-revision-hash"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Both a label and an annotation of the pods of Indexed jobs."""
MIRROR_POD_ANNOTATION: Final = "kubernetes.io/config.mirror"
POD_TEMPLATE_HASH_LABEL: Final = "pod-template-hash"

# Finalizers.
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
JOB_TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
POD_GROUP_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"

# Reasons of events, and features that nodes declare.
FAILED_PREPARE_REASON: Final = "FailedPrepareDynamicResources"
FAILED_UNPREPARE_REASON: Final = "FailedUnprepareDynamicResources"
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"

# dray's own.
DRIVERS_ANNOTATION: Final = "dray.dev/drivers"
"""The DRA drivers that are registered on a node, separated by commas."""
UNHEALTHY_TAINT: Final = "unhealthy"
"""The part after the slash of the taint key that drivers give an unhealthy device."""
HOST_USER_ID_ANNOTATION: Final = "dray.dev/host-user-id"
LEASE_ANNOTATION: Final = "dray.dev/lease"
PARTITIONS_OF_ANNOTATION: Final = "dray.dev/partitions-of"
