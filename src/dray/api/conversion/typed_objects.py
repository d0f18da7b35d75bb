"""Objects of any version as typed values, with the defaults that the API server fills in."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from dray.api import kinds
from dray.api.conversion import canonical, defaults, versions
from dray.api.types.meta import JsonObject

T = TypeVar("T")

NO_TIME = "1970-01-01T00:00:00Z"


def decode(document: JsonObject, type_: type[T]) -> T:
    """Return an object as its type. Raises ValueError or TypeError for one that is not valid."""
    stored = versions.to_storage(document)
    group, _ = kinds.parse_api_version(stored["apiVersion"])
    defaults.fill(stored, NO_TIME)
    schema_type = kinds.served(group, stored["kind"]).preferred.schema_type
    return msgspec.convert(canonical.prune_nulls(canonical.write(schema_type, stored)), type_)
