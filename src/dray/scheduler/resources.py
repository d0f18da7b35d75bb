"""The kinds the scheduler reads and writes."""

from __future__ import annotations

from dray.api import kinds

BUDGET = kinds.served("policy", "PodDisruptionBudget")
CLAIM = kinds.served("resource.k8s.io", "ResourceClaim")
CLAIM_TEMPLATE = kinds.served("resource.k8s.io", "ResourceClaimTemplate")
DEVICE_CLASS = kinds.served("resource.k8s.io", "DeviceClass")
NAMESPACE = kinds.served("", "Namespace")
NODE = kinds.served("", "Node")
POD = kinds.served("", "Pod")
POD_GROUP = kinds.served("scheduling.k8s.io", "PodGroup")
SLICE = kinds.served("resource.k8s.io", "ResourceSlice")
TAINT_RULE = kinds.served("resource.k8s.io", "DeviceTaintRule")
