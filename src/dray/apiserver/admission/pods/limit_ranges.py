"""LimitRanges: defaults for the resources of new pods, and bounds of pods and storage claims."""

from __future__ import annotations

from dray.api import kinds
from dray.api.admission import limit_ranges
from dray.api.types.core import LimitRange, PersistentVolumeClaim
from dray.api.types.pods import Pod
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup, Reader
from dray.store.store import Store

_STORAGE = "PersistentVolumeClaim"


class LimitRanges(AdmissionRule):
    about = frozenset({"Pod", _STORAGE})

    def __init__(self, store: Store) -> None:
        self._ranges = Lookup(store, kinds.LIMIT_RANGE, LimitRange)
        self._pods, self._claims = Reader(Pod), Reader(PersistentVolumeClaim)

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not _is_new_pod(admission):
            return
        for limit_range in await self._in(admission.namespace):
            limit_ranges.fill(admission.document, limit_range)

    async def validate(self, admission: AdmissionRequest) -> None:
        if not (_is_new_pod(admission) or _is_storage(admission)):
            return
        found = await self._in(admission.namespace)
        if not found:
            return
        with admission.forbids():
            if _is_new_pod(admission):
                limit_ranges.check_pod(self._pods.convert(admission.document), found)
            else:
                limit_ranges.check_storage(self._claims.convert(admission.document), found)

    async def _in(self, namespace: str) -> list[LimitRange]:
        return [found.value for found in await self._ranges.all(namespace)]


def _is_new_pod(admission: AdmissionRequest) -> bool:
    return admission.is_create and not admission.subresource and admission.is_about("", "Pod")


def _is_storage(admission: AdmissionRequest) -> bool:
    if admission.new is None or admission.subresource or not admission.is_about("", _STORAGE):
        return False
    return admission.old is None or not admission.old["metadata"].get("deletionTimestamp")
