"""The declarative rules of each field of each kind.

Follows the tags of staging/src/k8s.io/api at level beta or above; rules at level alpha report
nothing. Fields and their order are those of resource.k8s.io/v1, for ResourcePoolStatusRequest those
of v1alpha3, for PodGroup and Workload those of scheduling.k8s.io/v1beta1.
"""

from __future__ import annotations

from typing import Final

from dray.api.types.dra import (
    ALLOCATION_RESULTS_MAX_SIZE,
    RESERVED_FOR_MAX_SIZE,
    AllocatedDeviceStatus,
)
from dray.validation.declarative import formats
from dray.validation.declarative.rule_language import (
    Repeating,
    Struct,
    allowed_with,
    each_item,
    each_key,
    each_value,
    field,
    immutable,
    max_bytes,
    max_characters,
    max_items,
    maximum,
    minimum,
    no_clearing,
    no_modification,
    no_setting,
    one_of,
    optional,
    optional_pointer,
    required,
    required_pointer,
    same_items,
    union,
    unique,
)
from dray.validation.dra import taints
from dray.validation.dra.devices import ATTRIBUTE_FORMS

_taint_effect = one_of(*taints.EFFECTS)
_taint = Struct(required("effect", _taint_effect))
_toleration = Struct(
    optional("key", formats.label_key),
    required("operator", one_of("Equal", "Exists")),
    optional("effect", _taint_effect),
)

_driver = required("driver", formats.long_name_caseless, max_characters(63))
_configuration = optional_pointer("opaque", Struct(_driver))
_configured_requests = optional("requests", unique(), stops=(max_items(32),))
_selectors = optional("selectors", stops=(max_items(32),))

_allocation_mode = optional("allocation_mode", one_of("All", "ExactCount"))
_tolerations = optional("tolerations", each_item(_toleration))
_derived_attributes = optional(
    "derived_attributes",
    each_item(Struct(required("name", formats.fully_qualified_name), required("expression"))),
    stops=(max_items(32),),
)
_exact_request = Struct(_selectors, _allocation_mode, _tolerations, _derived_attributes)
_alternative = Struct(
    required("device_class_name", formats.long_name),
    _selectors,
    _allocation_mode,
    _tolerations,
    _derived_attributes,
)
_request = Struct(
    optional_pointer("exactly", _exact_request),
    optional(
        "first_available",
        unique(lambda alternative: alternative.name),
        each_item(_alternative, lambda alternative: alternative.name),
        stops=(max_items(8),),
    ),
)
_constraint = Struct(
    _configured_requests,
    optional_pointer("match_attribute", formats.fully_qualified_name),
    optional_pointer("distinct_attribute", formats.fully_qualified_name),
)
_claim_spec = Repeating(
    field(
        "devices",
        Struct(
            optional(
                "requests",
                unique(lambda request: request.name),
                each_item(_request, lambda request: request.name),
                stops=(max_items(32),),
            ),
            optional("constraints", each_item(_constraint), stops=(max_items(32),)),
            optional(
                "config",
                each_item(Struct(_configured_requests, _configuration)),
                stops=(max_items(32),),
            ),
        ),
    )
)

_skip_node_operation = one_of("*", "NodePrepareResources", "NodeUnprepareResources")
_skip_node_operations = optional(
    "skip_node_operations", unique(), each_item(_skip_node_operation, lambda operation: operation)
)
_binding_conditions = optional("binding_conditions", stops=(max_items(4),))
_binding_failure_conditions = optional("binding_failure_conditions", stops=(max_items(4),))
_share_id = optional_pointer("share_id", formats.uuid)

_result = Struct(
    _driver,
    required("pool", formats.pool_name),
    _tolerations,
    _binding_conditions,
    _binding_failure_conditions,
    _share_id,
    _skip_node_operations,
)
_allocation = Struct(
    field(
        "devices",
        Struct(
            optional(
                "results", each_item(_result), stops=(max_items(ALLOCATION_RESULTS_MAX_SIZE),)
            ),
            optional(
                "config",
                each_item(
                    Struct(
                        required("source", one_of("FromClaim", "FromClass")),
                        _configured_requests,
                        _configuration,
                    )
                ),
                stops=(max_items(64),),
            ),
        ),
    )
)
_network_data = Struct(
    optional("interface_name", max_bytes(256)),
    optional("ips", unique(), stops=(max_items(16),)),
    optional("hardware_address", max_bytes(128)),
)


def _allocated_device(device: AllocatedDeviceStatus) -> tuple[str, str, str, str | None]:
    return (device.driver, device.device, device.pool, device.share_id)


_claim_status = Struct(
    optional_pointer("allocation", _allocation, stops=(no_modification,)),
    optional(
        "reserved_for",
        unique(lambda reference: reference.uid),
        stops=(max_items(RESERVED_FOR_MAX_SIZE),),
    ),
    optional(
        "devices",
        unique(_allocated_device),
        each_item(
            Struct(_share_id, optional_pointer("network_data", _network_data)), _allocated_device
        ),
    ),
)

RESOURCE_CLAIM: Final = Struct(
    field("spec", _claim_spec, stops=(immutable,)), field("status", _claim_status)
)
RESOURCE_CLAIM_TEMPLATE: Final = Struct(field("spec", Struct(field("spec", _claim_spec))))
DEVICE_CLASS: Final = Struct(
    field("metadata", Struct(optional("name", formats.long_name))),
    field(
        "spec",
        Struct(
            _selectors,
            optional("config", each_item(Struct(_configuration)), stops=(max_items(32),)),
            optional_pointer("extended_resource_name", formats.extended_resource_name),
        ),
    ),
)
DEVICE_TAINT_RULE: Final = Struct(field("spec", Struct(field("taint", _taint))))

_counters = required("counters", each_key(formats.short_name))
_attribute = Struct(union(*ATTRIBUTE_FORMS))
_mapping = Struct(union(("capacity_key", "capacityKey"), ("device_multiplier", "deviceMultiplier")))
_device = Struct(
    optional("attributes", each_value(_attribute, repeats=True)),
    optional(
        "consumes_counters",
        unique(lambda consumption: consumption.counter_set),
        each_item(
            Struct(
                required("counter_set", formats.short_name),
                _counters,
                optional(
                    "compatibility_groups",
                    each_item(formats.short_name, lambda group: group),
                    unique(),
                    stops=(max_items(2),),
                ),
            ),
            lambda consumption: consumption.counter_set,
        ),
        stops=(max_items(2),),
    ),
    optional("taints", each_item(_taint)),
    _binding_conditions,
    _binding_failure_conditions,
    optional(
        "node_allocatable_resources", each_value(Struct(optional_pointer("mapping", _mapping)))
    ),
)
RESOURCE_SLICE: Final = Struct(
    field(
        "spec",
        Struct(
            optional("devices", each_item(_device)),
            optional(
                "shared_counters",
                unique(lambda counter_set: counter_set.name),
                each_item(
                    Struct(required("name", formats.short_name), _counters),
                    lambda counter_set: counter_set.name,
                ),
                stops=(max_items(8),),
            ),
            optional_pointer(
                "partition_type_attribute",
                formats.fully_qualified_name,
                stops=(allowed_with("partitionable_devices_type"),),
            ),
            _skip_node_operations,
        ),
    )
)

_count = (minimum(0),)
_partition_type = Struct(
    required("attribute"),
    required("type"),
    required_pointer("total", *_count),
    required_pointer("allocatable", *_count),
)
_shareable_capacity = Struct(
    required("name"),
    required_pointer("total"),
    required_pointer("consumed"),
    required_pointer("available"),
)
_shareable_summary = Struct(
    required_pointer("fully_available_devices", *_count),
    required_pointer("partially_available_devices", *_count),
    optional("capacity", each_item(_shareable_capacity), stops=(max_items(32),)),
)
_pool = Struct(
    required("driver", formats.long_name_caseless),
    required("pool_name", formats.pool_name),
    required("generation", *_count),
    optional_pointer("resource_slice_count", minimum(1)),
    optional_pointer("total_devices", *_count),
    optional_pointer("allocated_devices", *_count),
    optional_pointer("available_devices", *_count),
    optional_pointer("unavailable_devices", *_count),
    optional_pointer("node_name", formats.long_name),
    optional_pointer("validation_error", max_bytes(256)),
    optional(
        "partition_summary",
        unique(lambda partition: (partition.attribute, partition.type)),
        each_item(_partition_type, lambda partition: (partition.attribute, partition.type)),
        stops=(max_items(32),),
    ),
    optional_pointer("shareable_summary", _shareable_summary),
)
RESOURCE_POOL_STATUS_REQUEST: Final = Struct(
    field(
        "spec",
        Struct(
            required("driver", formats.long_name_caseless),
            optional_pointer("pool_name", formats.pool_name),
            required_pointer("limit", maximum(1000), minimum(1)),
            optional_pointer(
                "default_partition_type_attribute",
                formats.fully_qualified_name,
                stops=(allowed_with("partitionable_devices_type"),),
            ),
        ),
        stops=(immutable,),
    ),
    optional_pointer(
        "status",
        Struct(
            required_pointer("pool_count", *_count),
            optional("pools", each_item(_pool), stops=(max_items(1000),)),
            optional(
                "conditions", unique(lambda condition: condition.type), stops=(max_items(10),)
            ),
        ),
    ),
)

_group_claim = Struct(
    union(
        ("resource_claim_name", "resourceClaimName"),
        ("resource_claim_template_name", "resourceClaimTemplateName"),
    ),
    required("name", formats.short_name),
    optional_pointer("resource_claim_name", formats.long_name),
    optional_pointer("resource_claim_template_name", formats.long_name),
)
_group_policy = Struct(
    union(("basic", "basic"), ("gang", "gang")),
    optional_pointer("basic", stops=(immutable,)),
    optional_pointer(
        "gang", Struct(required("min_count", minimum(1))), stops=(no_setting, no_clearing)
    ),
)
_group_constraints = optional_pointer(
    "scheduling_constraints",
    Struct(
        optional(
            "topology",
            each_item(Struct(required("key", formats.label_key))),
            stops=(max_items(1),),
        )
    ),
    stops=(immutable,),
)
_group_claims = optional(
    "resource_claims",
    unique(lambda claim: claim.name),
    each_item(_group_claim, lambda claim: claim.name),
    stops=(immutable, max_items(4)),
)
_disruption_mode = Struct(union(("single", "single"), ("all", "all")))
_group_priority = (
    optional("priority_class_name", formats.long_name, stops=(immutable,)),
    optional_pointer("priority", maximum(1_000_000_000), stops=(immutable,)),
    optional_pointer(
        "preemption_policy", one_of("PreemptLowerPriority", "Never"), stops=(immutable,)
    ),
)
POD_GROUP: Final = Struct(
    field(
        "spec",
        Struct(
            optional_pointer(
                "parent_composite_pod_group_name", formats.long_name, stops=(immutable,)
            ),
            optional_pointer(
                "workload_ref",
                Struct(
                    required("workload_name", formats.long_name),
                    required("template_name", formats.short_name),
                ),
                stops=(immutable,),
            ),
            field("scheduling_policy", _group_policy),
            _group_constraints,
            _group_claims,
            required("disruption_mode", _disruption_mode, stops=(immutable,)),
            *_group_priority,
        ),
    ),
    field(
        "status",
        Struct(
            optional(
                "resource_claim_statuses",
                unique(lambda status: status.name),
                each_item(
                    Struct(optional_pointer("resource_claim_name", formats.long_name)),
                    lambda status: status.name,
                ),
                stops=(max_items(4),),
            )
        ),
    ),
)
_group_template = Struct(
    required("name", formats.short_name),
    field("scheduling_policy", _group_policy),
    _group_constraints,
    _group_claims,
    optional_pointer("disruption_mode", _disruption_mode, stops=(immutable,)),
    *_group_priority,
)
WORKLOAD: Final = Struct(
    field(
        "spec",
        Struct(
            union(
                ("pod_group_templates", "podGroupTemplates"),
                ("composite_pod_group_templates", "compositePodGroupTemplates"),
            ),
            optional_pointer(
                "controller_ref",
                Struct(
                    optional("api_group", formats.long_name),
                    required("kind", formats.path_segment),
                    required("name", formats.path_segment),
                ),
                stops=(immutable,),
            ),
            optional(
                "pod_group_templates",
                unique(lambda template: template.name),
                each_item(_group_template, lambda template: template.name),
                stops=(max_items(8), same_items(lambda template: template.name)),
            ),
        ),
    ),
)

_node_allocatable_status = Struct(
    required("resource_claim_name"),
    optional("containers", unique()),
    optional(
        "mapping",
        unique(lambda item: item.name),
        each_item(Struct(required("name"), required_pointer("quantity")), lambda item: item.name),
    ),
    optional(
        "overhead",
        unique(lambda item: item.name),
        each_item(Struct(required("name")), lambda item: item.name),
    ),
)
POD: Final = Struct(
    field(
        "status",
        Struct(
            optional(
                "node_allocatable_resource_claim_statuses",
                unique(lambda status: status.resource_claim_name),
                each_item(_node_allocatable_status, lambda status: status.resource_claim_name),
            )
        ),
    )
)
