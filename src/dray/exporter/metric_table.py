"""The one table of the exporter's metrics: rules, dashboards and the documentation follow it.

Values of labels have no spaces: a device is `in_use`, a cause is `no_nodes`. Class and node names
cannot begin with an underscore, so values that do are no names.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

NONE = "_none"
"""The class of devices that match no class, and the node of devices that have no node."""
OTHER = "_other"
"""The classes of a node that has too many of them, together."""
EVERY_DEVICE = "_all"
"""The devices of a node that has too many of them, together."""
SERIES_PER_NODE = 20
"""The number of series with the name of one node is at most this."""


class MetricType(enum.StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric. `unit` is a base unit of Prometheus, or "" for a number of things."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""


GAUGE, COUNTER, HISTOGRAM = MetricType

DEVICES = Metric(
    "dray_devices",
    GAUGE,
    "Devices of a node by class and state, a device with its partitions once.",
    ("node", "device_class", "state"),
)
DEVICES_TAINTED = Metric(
    "dray_devices_tainted",
    GAUGE,
    "Devices that only claims with a toleration can get, in whatever state.",
    ("node",),
)
DEVICES_UNHEALTHY = Metric(
    "dray_devices_unhealthy",
    GAUGE,
    "Devices that their driver has marked as unhealthy, in whatever state.",
    ("node",),
)
LARGEST_PARTITION = Metric(
    "dray_device_largest_partition_ratio",
    GAUGE,
    "The largest part of a partitionable device that a claim could get now, of all of it.",
    ("node", "device"),
    "ratio",
)
CLASS_DEVICES = Metric(
    "dray_device_class_devices",
    GAUGE,
    "Devices of all nodes by class and state, a device with its partitions once.",
    ("device_class", "state"),
)
CLASS_STRANDED = Metric(
    "dray_devices_stranded",
    GAUGE,
    "Devices of a class that are free or shared, and that no new pod can get.",
    ("device_class",),
)
CLASS_FITS = Metric(
    "dray_device_class_fits",
    GAUGE,
    "Pods that still fit and ask for this number of devices of a class and nothing else.",
    ("device_class", "devices"),
)
CLAIMS = Metric("dray_claims", GAUGE, "Claims: allocated, or pending without devices.", ("state",))
CLAIMS_PENDING = Metric(
    "dray_claims_pending",
    GAUGE,
    "Claims without devices, also those not created yet, by what their pods wait for.",
    ("cause",),
)
CLAIMS_PENDING_OLDEST = Metric(
    "dray_claims_pending_oldest_seconds",
    GAUGE,
    "Age of the claim that has waited longest, by what its pod waits for.",
    ("cause",),
    "seconds",
)
CLAIM_ALLOCATION = Metric(
    "dray_claim_allocation_seconds",
    HISTOGRAM,
    "Time from the creation of a claim until it has devices.",
    (),
    "seconds",
)
POOLS = Metric(
    "dray_pools",
    GAUGE,
    "Pools of a driver by whether all slices of the newest generation are there.",
    ("driver", "complete"),
)
SLICES = Metric(
    "dray_resource_slices",
    GAUGE,
    "ResourceSlices of a driver by whether their pool is complete.",
    ("driver", "complete"),
)
POOLS_GONE = Metric(
    "dray_driver_pools_gone",
    GAUGE,
    "Pools that a driver no longer publishes although their node or claims on them are there.",
    ("driver",),
)
OBJECTS = Metric("dray_exporter_objects", GAUGE, "Objects that the exporter knows.", ("resource",))
UNREADABLE = Metric(
    "dray_exporter_unreadable_objects",
    GAUGE,
    "Objects that the exporter cannot read, and that are missing from the figures.",
    ("resource",),
)
CHANGES = Metric(
    "dray_exporter_changes_total", COUNTER, "Changes of objects that were seen.", ("resource",)
)
LAST_CONTACT = Metric(
    "dray_exporter_last_contact_timestamp_seconds",
    GAUGE,
    "When the API server last sent something about a resource, since 1970.",
    ("resource",),
    "seconds",
)
LAST_UPDATE = Metric(
    "dray_exporter_last_update_timestamp_seconds",
    GAUGE,
    "When the figures last took over every change that was seen, since 1970.",
    (),
    "seconds",
)

METRICS: tuple[Metric, ...] = (
    DEVICES,
    DEVICES_TAINTED,
    DEVICES_UNHEALTHY,
    LARGEST_PARTITION,
    CLASS_DEVICES,
    CLASS_STRANDED,
    CLASS_FITS,
    CLAIMS,
    CLAIMS_PENDING,
    CLAIMS_PENDING_OLDEST,
    CLAIM_ALLOCATION,
    POOLS,
    SLICES,
    POOLS_GONE,
    OBJECTS,
    UNREADABLE,
    CHANGES,
    LAST_CONTACT,
    LAST_UPDATE,
)

NODE_METRICS = (DEVICES, DEVICES_TAINTED, DEVICES_UNHEALTHY, LARGEST_PARTITION)
"""The metrics with a series for each node."""

CAUSES: tuple[str, ...] = (
    "devices", "claim", "class", "room", "neighbours", "node", "no_nodes", "gates", "group",
    "error", "scheduler", "no_pod",
)  # fmt: skip
"""What pods wait for: the scheduler's reasons; `scheduler` where a node and devices are free, and
`no_pod` for claims that no pod uses."""
