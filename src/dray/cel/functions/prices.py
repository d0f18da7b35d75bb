"""Prices of overloads: the estimate before a call and the cost once it has been made."""

from __future__ import annotations

from typing import TypeAlias

from dray.cel.functions import cost_estimates, runtime_costs
from dray.cel.functions.overloads import Cost, Estimate

Price: TypeAlias = tuple[Estimate, Cost]

SCAN = (cost_estimates.scan, runtime_costs.scan)
SCAN_KEEPING_SIZE = (cost_estimates.scan_keeping_size, runtime_costs.scan)
SCAN_SECOND = (cost_estimates.scan_second, runtime_costs.scan_second)
SCAN_TWICE = (cost_estimates.scan_twice, runtime_costs.scan_twice)
CONCATENATION = (cost_estimates.concatenation, runtime_costs.scan_both)
COMPARISON = (cost_estimates.comparison, runtime_costs.scan_shorter)
SEARCH = (cost_estimates.search, runtime_costs.search)
MATCH = (cost_estimates.match, runtime_costs.match)
TRAVERSAL = (cost_estimates.traversal, runtime_costs.traversal)
