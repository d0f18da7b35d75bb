"""RuntimeClasses: the overhead of pods, and on which nodes they run."""

from __future__ import annotations

from dray.api import kinds
from dray.api.admission import runtime_classes
from dray.api.types.meta import JsonObject
from dray.api.types.pods import RuntimeClass
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule
from dray.apiserver.storage.lookup import Lookup
from dray.store.store import Store


class RuntimeClasses(AdmissionRule):
    about = frozenset({"Pod"})
    operations = frozenset({admission_chain.CREATE})

    def __init__(self, store: Store) -> None:
        self._classes = Lookup(store, kinds.RUNTIME_CLASS, RuntimeClass)

    async def mutate(self, admission: AdmissionRequest) -> None:
        if not admission.is_about("", "Pod"):
            return
        spec = admission.document.setdefault("spec", {})
        with admission.forbids():
            found = await self._class_of(spec)
            if found is not None:
                runtime_classes.fill(spec, found)

    async def validate(self, admission: AdmissionRequest) -> None:
        if not admission.is_about("", "Pod"):
            return
        spec = admission.document.get("spec") or {}
        with admission.forbids():
            runtime_classes.check(spec, await self._class_of(spec))

    async def _class_of(self, spec: JsonObject) -> RuntimeClass | None:
        """Return the class of a pod, or None without one. Raises Refused for a missing one."""
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        return runtime_classes.require(name, await self._classes.get(name))
