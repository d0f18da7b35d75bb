"""Uses of claims by containers: claims that none uses, and requests that do not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.api.types.pods import Pod
from dray.explain.pod import obstacles
from dray.explain.pod.obstacles import Obstacle
from dray.explain.selectors import spelling

Requests = Mapping[str, Sequence[str]]
"""The names of the requests of a pod's claims, by the pod's own names of the claims."""


def problems(pod: Pod, requests: Requests) -> Iterator[Obstacle]:
    """Yield claims that no container uses, and containers that name requests that do not exist."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    used = set()
    for container in containers:
        for use in container.resources.claims:
            used.add(use.name)
            known = requests.get(use.name)
            if use.request and known is not None and use.request not in known:
                close = spelling.similar(use.request, known) or (known if len(known) == 1 else ())
                yield obstacles.RequestUnknown(
                    container=container.name,
                    pod_claim=use.name,
                    request=use.request,
                    similar=close[0] if close else "",
                    known=tuple(known),
                )
    # Kubernetes lets the resources of a whole pod name claims too.
    if pod.spec.resources is not None:
        used |= {use.name for use in pod.spec.resources.claims}
    for source in pod.spec.resource_claims:
        if source.name not in used:
            yield obstacles.ClaimUnused(pod_claim=source.name)
