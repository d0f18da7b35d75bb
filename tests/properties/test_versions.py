"""Versions: stored → old → stored is the identity for everything an old version can express."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.conversion import versions
from dray.api.types.meta import JsonObject

WORDS = st.sampled_from(["a", "b", "gpu.example.com", "x-1"])
SCALARS = st.one_of(st.booleans(), st.integers(1, 40), WORDS)
FUTURE = st.dictionaries(st.sampled_from(["future", "later"]), SCALARS, max_size=1)


def subset(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    return st.fixed_dictionaries({}, optional=fields)


def merged(*parts: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    return st.tuples(*parts).map(lambda dicts: {k: v for part in dicts for k, v in part.items()})


TOLERATIONS = st.lists(subset(key=WORDS, operator=st.just("Exists")), min_size=1, max_size=2)
SELECTORS = st.lists(st.fixed_dictionaries({"cel": subset(expression=WORDS)}), max_size=2)
SUBREQUEST = merged(
    st.fixed_dictionaries({"name": WORDS, "deviceClassName": WORDS}),
    subset(selectors=SELECTORS, count=st.integers(1, 40), tolerations=TOLERATIONS),
    FUTURE,
)
EXACTLY = merged(
    st.fixed_dictionaries({"deviceClassName": WORDS}),
    subset(
        selectors=SELECTORS,
        allocationMode=st.sampled_from(["ExactCount", "All"]),
        count=st.integers(0, 40),
        adminAccess=st.booleans(),
        tolerations=TOLERATIONS,
        capacity=subset(requests=st.dictionaries(WORDS, WORDS, max_size=1)),
        derivedAttributes=st.lists(subset(name=WORDS, expression=WORDS), max_size=1),
    ),
    FUTURE,
)
REQUEST = st.one_of(
    st.fixed_dictionaries({"name": WORDS, "exactly": EXACTLY}),
    merged(
        st.fixed_dictionaries(
            {"name": WORDS, "firstAvailable": st.lists(SUBREQUEST, min_size=1, max_size=2)}
        ),
        FUTURE,
    ),
)
CLAIM_SPEC = merged(
    subset(devices=merged(subset(requests=st.lists(REQUEST, max_size=3)), FUTURE)), FUTURE
)
DEVICE = merged(
    st.fixed_dictionaries({"name": WORDS}),
    subset(
        attributes=st.dictionaries(WORDS, subset(string=WORDS), max_size=2),
        capacity=st.dictionaries(WORDS, subset(value=WORDS), max_size=2),
        nodeName=WORDS,
        allNodes=st.booleans(),
        taints=st.lists(subset(key=WORDS), max_size=1),
        bindsToNode=st.booleans(),
    ),
    FUTURE,
)
SLICE_SPEC = merged(
    subset(
        driver=WORDS,
        nodeName=WORDS,
        allNodes=st.just(True),
        devices=st.lists(DEVICE, max_size=3),
        sharedCounters=st.lists(subset(name=WORDS), max_size=1),
    ),
    FUTURE,
)


def stored(api_version: str, kind: str, **fields: st.SearchStrategy[Any]) -> Any:
    types = st.just({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}})
    return merged(types, subset(**fields), FUTURE)


STORED_EVENT = stored(
    "v1",
    "Event",
    involvedObject=subset(name=WORDS),
    message=WORDS,
    reason=WORDS,
    reportingComponent=WORDS,
    source=subset(component=WORDS),
    firstTimestamp=WORDS,
    lastTimestamp=st.none(),
    count=st.integers(0, 3),
    series=subset(count=st.integers(0, 3)),
)
STORED_RESOURCES = st.one_of(
    stored("resource.k8s.io/v1", "ResourceClaim", spec=CLAIM_SPEC, status=FUTURE),
    stored("resource.k8s.io/v1", "ResourceClaimTemplate", spec=subset(spec=CLAIM_SPEC)),
    stored("resource.k8s.io/v1", "ResourceSlice", spec=SLICE_SPEC),
    stored("resource.k8s.io/v1", "DeviceClass", spec=FUTURE),
)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
@given(stored=STORED_RESOURCES)
def test_resources_survive_an_old_client(version: str, stored: JsonObject) -> None:
    assert_survives(stored, f"resource.k8s.io/{version}")


@given(stored=STORED_EVENT)
def test_events_survive_their_other_form(stored: JsonObject) -> None:
    assert_survives(stored, "events.k8s.io/v1")


def assert_survives(stored: JsonObject, api_version: str) -> None:
    before = copy.deepcopy(stored)
    seen = versions.from_storage(stored, api_version)
    assert seen["apiVersion"] == api_version
    assert versions.to_storage(seen) == before
    assert stored == before
