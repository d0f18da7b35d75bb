"""The number of copies of a pod with its claims that the quotas of its namespace admit."""

from __future__ import annotations

import datetime
from typing import NamedTuple

from dray.api.admission.refusals import Refused
from dray.api.types.core import ResourceQuota
from dray.planner.cluster_model import ClusterModel
from dray.planner.submission.quota_book import QuotaBook
from dray.scheduling.pod_copies import PodCopies


class QuotaRoom(NamedTuple):
    """The number of copies that quotas admit, and the refusal of the next one."""

    pods: int
    refusal: str


def room(
    cluster: ClusterModel, copies: PodCopies, most: int, now: datetime.datetime
) -> QuotaRoom | None:
    """Return how many copies quotas admit; None if these are more than `most`."""
    namespace = copies.pod.metadata.namespace
    if all(quota.metadata.namespace != namespace for quota in cluster.of(ResourceQuota)):
        return None
    book = QuotaBook(cluster, now)
    for number in range(most + 1):
        try:
            book.charge_pod(copies.pod)
            for claim in copies.claims:
                book.charge_claim(claim)
        except Refused as error:
            return QuotaRoom(number, str(error))
    return None
