"""The status of admission policies: warnings about expressions that do not fit the matched kinds.

Behaviour of pkg/controller/validatingadmissionpolicystatus.
"""

from __future__ import annotations

import contextlib

import msgspec

from dray.api import errors, kinds
from dray.api.ids import ObjectKey
from dray.api.types.admission import TypeChecking
from dray.controllers import status_patches
from dray.controllers.loops import Context, ObjectLoop
from dray.validation import policy_types


class PolicyStatuses(ObjectLoop):
    def __init__(self, context: Context) -> None:
        super().__init__("policies", context, context.caches.policies, workers=1)
        self._policies = context.caches.policies

    async def reconcile(self, key: ObjectKey) -> float | None:
        policy = self._policies.get(key.name)
        if policy is None or policy.metadata.generation <= policy.status.observed_generation:
            return None
        status = msgspec.structs.replace(
            policy.status,
            observed_generation=policy.metadata.generation,
            type_checking=TypeChecking(tuple(policy_types.warnings(policy.spec))),
        )
        with contextlib.suppress(errors.NotFound):
            await status_patches.patch_status(
                self.client,
                kinds.VALIDATING_ADMISSION_POLICY,
                policy.metadata,
                policy.status,
                status,
            )
        return None
