"""Values published for the names that selectors, constraints and capacity requests use.

For each filter that removes devices: how many of the devices before it have each attribute and with
which values, similar names for one that no device has, how many devices each clause of a
conjunction leaves, and constants that are of another type than the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.node_inventory import NodeInventory
from dray.allocator.inventory.selectors import CachedSelector, Selectors
from dray.allocator.inventory.shapes import Path
from dray.allocator.model.candidates import Candidate
from dray.allocator.problem.node_problem import NodeAlternative
from dray.allocator.problem.resolution import ResolvedAlternative, ResolvedClaim
from dray.explain.selectors import expressions, spelling, typed_values
from dray.explain.selectors.expressions import ATTRIBUTES, CAPACITY, Comparison, SelectorSubject
from dray.explain.selectors.typed_values import QUANTITY, TypedValue
from dray.explain.survey import equivalence
from dray.explain.survey.equivalence import EquivalenceClass
from dray.explain.survey.filters import DeviceFilter, FilterKind, NodeFilters
from dray.explain.survey.funnel import DistinctDevices, Funnel
from dray.explain.survey.node_survey import Survey

VALUES_SHOWN = 3
_VALUES_COUNTED = 1024
_FILTERS_OBSERVED = 12


class Count(msgspec.Struct, frozen=True):
    """A text, and how many devices it is true of."""

    text: str
    devices: int


class Similar(msgspec.Struct, frozen=True):
    """Another name that exists, and on how many devices."""

    field: str
    domain: str
    name: str
    devices: int


class SubjectFact(msgspec.Struct, frozen=True):
    """The values of one attribute or capacity."""

    field: str
    domain: str
    name: str
    devices: int
    """Devices that have it."""
    total: int
    """Devices before the filter, or before the clause that names it."""
    types: tuple[Count, ...] = ()
    values: tuple[Count, ...] = ()
    """The most common ones."""
    distinct: int = 0
    least: str = ""
    most: str = ""
    similar: tuple[Similar, ...] = ()
    """Similar names, if no device has this one."""
    domains: tuple[Count, ...] = ()
    """The published domains, if no device publishes anything in this one."""


class ClauseCount(msgspec.Struct, frozen=True):
    """Number of devices that are left after a clause and those before it."""

    text: str
    left: int


class Compared(msgspec.Struct, frozen=True):
    """A comparison with a constant in a selector."""

    name: str
    relation: str
    constant: str
    type: str


class TypeMistake(msgspec.Struct, frozen=True):
    """A constant of another type than the values."""

    name: str
    has: str
    given: str
    constant: str


class FilterFacts(msgspec.Struct, frozen=True):
    """The facts about one filter of one funnel."""

    claim: int
    request: str
    filter: DeviceFilter
    devices: int
    subjects: tuple[SubjectFact, ...] = ()
    clauses: tuple[ClauseCount, ...] = ()
    comparisons: tuple[Compared, ...] = ()
    mistakes: tuple[TypeMistake, ...] = ()


class Observation(NamedTuple):
    """The facts about a filter, and all values that they summarise."""

    facts: FilterFacts
    values: dict[SelectorSubject, Counter[TypedValue]]


FunnelKey = tuple[int, str]


def observe(
    cluster: ClusterInventory, survey: Survey, claims: Sequence[ResolvedClaim]
) -> tuple[Observation, ...]:
    """Return the facts about each filter that removes devices."""
    observers = _observers(cluster, survey, claims)
    if not any(observers.values()):
        return ()
    for group in _groups(cluster, survey, claims, observers):
        inventory = cluster.inventory(cluster.nodes[group[0].node])
        node_filters = NodeFilters(inventory, claims, cluster.selectors)
        for alternative in node_filters.alternatives():
            observed = observers[alternative.resolved.key]
            for device_filter, left in _arriving_devices(node_filters, alternative, observed):
                observed[device_filter].add(inventory, left, len(group))
    by_filter = [observer for observed in observers.values() for observer in observed.values()]
    return tuple(observer.observation() for observer in by_filter)


_Observers = Mapping[FunnelKey, Mapping[DeviceFilter, "_Observer"]]


def _observers(
    cluster: ClusterInventory, survey: Survey, claims: Sequence[ResolvedClaim]
) -> _Observers:
    clause_selectors = Selectors(cluster.features)
    alternatives = {
        alternative.key: alternative for claim in claims for alternative in claim.alternatives()
    }
    return {
        funnel.key: {
            device_filter: _Observer(
                alternatives[funnel.key], device_filter, claims, clause_selectors, cluster
            )
            for device_filter in _observed_filters(funnel)
        }
        for funnel in survey.funnels
    }


def _groups(
    cluster: ClusterInventory,
    survey: Survey,
    claims: Sequence[ResolvedClaim],
    observers: _Observers,
) -> Sequence[EquivalenceClass]:
    """Group the nodes whose devices agree in all values that filters read or facts show."""
    decisive = equivalence.paths_read(claims, cluster.features)
    shown = {
        path
        for by_filter in observers.values()
        for observer in by_filter.values()
        for path in observer.paths()
    }
    if shown <= decisive:
        return survey.groups
    return equivalence.group_nodes(cluster, survey.evaluated_nodes, decisive | shown)


def _observed_filters(funnel: Funnel) -> Sequence[DeviceFilter]:
    """Return the filters that remove devices because of a name in a claim or class."""
    losing = [
        stage.filter
        for stage in funnel.stages
        if stage.lost and (stage.filter.is_selector or stage.filter.kind in _NAMING)
    ]
    return losing[:_FILTERS_OBSERVED]


_NAMING = (FilterKind.CAPACITY, FilterKind.CONSTRAINTS)


def _arriving_devices(
    node_filters: NodeFilters, alternative: NodeAlternative, observed: Iterable[DeviceFilter]
) -> Iterator[tuple[DeviceFilter, int]]:
    """Yield the devices before each of the observed filters."""
    missing = set(observed)
    left = node_filters.inventory.everything
    results = node_filters.results(alternative)
    while missing and (result := next(results, None)) is not None:
        if result.filter in missing:
            missing.remove(result.filter)
            yield result.filter, left
        left &= result.passing


class _Observer:
    """Counts what the devices before one filter publish."""

    def __init__(
        self,
        resolved: ResolvedAlternative,
        device_filter: DeviceFilter,
        claims: Sequence[ResolvedClaim],
        selectors: Selectors,
        cluster: ClusterInventory,
    ) -> None:
        self._resolved = resolved
        self._filter = device_filter
        self._distinct = DistinctDevices()
        self._subjects = tuple(_subjects(resolved, device_filter, claims, cluster))
        self._devices = 0
        self._arrived: Counter[SelectorSubject] = Counter()
        self._publishing: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter()
        self._values: dict[SelectorSubject, Counter[TypedValue]] = {
            subject: Counter() for subject in self._subjects
        }
        self._having: Counter[SelectorSubject] = Counter()
        self._clauses = _compiled_clauses(device_filter, selectors)
        self._left = [0] * len(self._clauses)
        self._named = _first_named(self._subjects, [text for text, _ in self._clauses], cluster)
        """For each clause the subjects that no earlier clause names."""

    def paths(self) -> set[Path]:
        """Return the paths that are read, without capacities: these are in every device key."""
        read = {path for _, selector in self._clauses for path in selector.paths}
        return read | {tuple(subject) for subject in self._subjects if subject.field == ATTRIBUTES}

    def add(self, inventory: NodeInventory, arriving: int, nodes: int) -> None:
        """Add the devices before the filter on one node, for `nodes` equivalent nodes."""
        uncounted = self._distinct.uncounted("", inventory, arriving)
        self._devices += nodes * uncounted.bit_count()
        for device in inventory.members(uncounted):
            published = device.device
            names = (device.driver, tuple(published.attributes), tuple(published.capacity))
            self._publishing[names] += nodes
        if not self._clauses:
            self._read(inventory, uncounted, self._subjects, nodes)
        for number, (_, selector) in enumerate(self._clauses):
            self._read(inventory, uncounted, self._named[number], nodes)
            uncounted &= selector.matches(inventory).matching
            self._left[number] += nodes * uncounted.bit_count()

    def _read(
        self,
        inventory: NodeInventory,
        devices: int,
        subjects: Iterable[SelectorSubject],
        nodes: int,
    ) -> None:
        for subject in subjects:
            self._arrived[subject] += nodes * devices.bit_count()
            for device in inventory.members(devices):
                self._count(subject, device, nodes)

    def _count(self, subject: SelectorSubject, device: Candidate, nodes: int) -> None:
        value = typed_values.read(device, subject)
        if value is not None:
            self._having[subject] += nodes
            counter = self._values[subject]
            if value in counter or len(counter) < _VALUES_COUNTED:
                counter[value] += nodes

    def observation(self) -> Observation:
        published = self._published()
        compared = expressions.comparisons(self._filter.expression)
        facts = FilterFacts(
            *self._resolved.key,
            self._filter,
            self._devices,
            tuple(self._fact(subject, published) for subject in self._subjects),
            tuple(
                ClauseCount(text, left)
                for (text, _), left in zip(self._clauses, self._left, strict=True)
            ),
            tuple(_compared(comparison) for comparison in compared),
            tuple(self._mistakes(compared)),
        )
        return Observation(facts, self._values)

    def _fact(self, subject: SelectorSubject, published: Counter[SelectorSubject]) -> SubjectFact:
        values = self._values[subject]
        types: Counter[str] = Counter()
        for value, devices in values.items():
            types[value.type] += devices
        least, most = _range(values)
        is_absent = not self._having[subject]
        return SubjectFact(
            *subject,
            self._having[subject],
            self._arrived[subject],
            _counts(types),
            _counts(Counter({value.text: devices for value, devices in values.items()})),
            len(values),
            least,
            most,
            _similar(subject, published) if is_absent else (),
            _domains(subject, published) if is_absent else (),
        )

    def _published(self) -> Counter[SelectorSubject]:
        """Count the devices by name name that they publish, with its domain."""
        published: Counter[SelectorSubject] = Counter()
        for (driver, of_attributes, of_capacity), devices in self._publishing.items():
            for field, names in ((ATTRIBUTES, of_attributes), (CAPACITY, of_capacity)):
                for name in names:
                    published[SelectorSubject.published(field, driver, name)] += devices
        if self._filter.kind is FilterKind.CAPACITY:
            return Counter({name._replace(domain=""): published[name] for name in published})
        return published

    def _mistakes(self, compared: Iterable[Comparison]) -> Iterator[TypeMistake]:
        for comparison in compared:
            has = {value.type for value in self._values.get(comparison.subject, ())}
            given = type_of(comparison)
            if comparison.subject.field == CAPACITY:
                has = {QUANTITY}
            if has and given not in has:
                constant = expressions.written(comparison.constant)
                yield TypeMistake(comparison.subject.name, sorted(has)[0], given, constant)


_TYPE_OF = {function: kind for kind, function in typed_values.FUNCTION_OF.items()}


def type_of(compared: Comparison) -> str:
    """Return the type that values need for the comparison."""
    if compared.form:
        return _TYPE_OF[compared.form]
    if isinstance(compared.constant, bool):
        return "bool"
    if isinstance(compared.constant, str):
        return "string"
    return "int" if isinstance(compared.constant, int) else type(compared.constant).__name__


def _compared(comparison: Comparison) -> Compared:
    write = str if comparison.form else expressions.written
    constant = write(comparison.constant)
    return Compared(comparison.subject.name, comparison.relation, constant, type_of(comparison))


def _subjects(
    resolved: ResolvedAlternative,
    device_filter: DeviceFilter,
    claims: Sequence[ResolvedClaim],
    cluster: ClusterInventory,
) -> Iterable[SelectorSubject]:
    """Return the attributes and capacities that the filter names."""
    if device_filter.kind is FilterKind.CAPACITY:
        return [SelectorSubject(CAPACITY, "", name) for name in resolved.parsed.capacity or ()]
    if device_filter.kind is FilterKind.CONSTRAINTS:
        named = [
            constraint.match_attribute or constraint.distinct_attribute or ""
            for constraint in claims[resolved.claim].parsed.constraints
        ]
        published = [name for name in named if name not in resolved.parsed.derived]
        distinct = dict.fromkeys(published)
        return [SelectorSubject.published(ATTRIBUTES, "", name) for name in distinct]
    return subjects_of(device_filter.expression, cluster)


def subjects_of(expression: str, cluster: ClusterInventory) -> list[SelectorSubject]:
    """Return the attributes and capacities that a selector reads."""
    compiled = expressions.compiled(expression, cluster.features)
    return expressions.subjects_read(expression, compiled)


def _compiled_clauses(
    device_filter: DeviceFilter, selectors: Selectors
) -> list[tuple[str, CachedSelector]]:
    texts = expressions.clauses(device_filter.expression) if device_filter.is_selector else []
    return [(text, selectors.selector(text)) for text in texts] if len(texts) > 1 else []


def _first_named(
    subjects: Iterable[SelectorSubject], clauses: Sequence[str], cluster: ClusterInventory
) -> list[list[SelectorSubject]]:
    """Return for subject clause the subjects that no earlier clause names."""
    rest = list(subjects)
    first_named = []
    for text in clauses:
        named = [subject for subject in subjects_of(text, cluster) if subject in rest]
        rest = [subject for subject in rest if subject not in named]
        first_named.append(named)
    return first_named


def _range(values: Iterable[TypedValue]) -> tuple[str, str]:
    """Return the least and the greatest value, or empty texts if values have no common order."""
    ordered = typed_values.ordered(values)
    return (ordered[0].text, ordered[-1].text) if ordered else ("", "")


def _counts(counter: Counter[str]) -> tuple[Count, ...]:
    return tuple(Count(*entry) for entry in counter.most_common(VALUES_SHOWN))


def _similar(subject: SelectorSubject, published: Counter[SelectorSubject]) -> tuple[Similar, ...]:
    ranked = spelling.similar_subjects(subject, published)
    return tuple(Similar(*other, published[other]) for other in ranked[:VALUES_SHOWN])


def _domains(subject: SelectorSubject, published: Counter[SelectorSubject]) -> tuple[Count, ...]:
    domains: Counter[str] = Counter()
    for other, devices in published.items():
        if other.field == subject.field:
            domains[other.domain] = max(domains[other.domain], devices)
    return () if subject.domain in domains or not subject.domain else _counts(domains)
