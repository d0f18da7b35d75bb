"""How commands talk to a cluster."""

from __future__ import annotations

from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from tests.unit.cli.conftest import Cluster


class Large:
    """An answer of which nobody should make a text."""

    def __repr__(self) -> str:
        raise AssertionError("a text of a large answer takes seconds")


def test_an_answer_comes_back_as_it_is(cluster: Cluster) -> None:
    answer = Large()

    async def body(session: Session) -> Large:
        assert session.namespace == "default"
        return answer

    assert connection.run(Target(kubeconfig=str(cluster.kubeconfig)), body) is answer
