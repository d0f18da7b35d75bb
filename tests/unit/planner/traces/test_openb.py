"""Reading CSV traces, and errors that name line and column."""

from __future__ import annotations

import pytest

from dray.planner.policies.rooms import PodRequest
from dray.planner.traces import openb
from dray.planner.traces.errors import TraceError

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,8000,1024,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"
    "a,1000,512,1,500,V100M16|V100M32,LS,0,10\n"
    "\n"
    "b,2000,1024,0,0,,BE,5,\n"
)


def test_nodes_and_pods_are_read() -> None:
    trace = openb.Trace(openb.read_nodes(NODES, "n.csv"), openb.read_pods(PODS, "p.csv"))
    assert trace.nodes[0] == openb.TraceNode("n0", 64_000, 262_144, 2, "P100")
    models = frozenset({"V100M16", "V100M32"})
    assert list(trace.pods) == [
        openb.TracePod("a", PodRequest(1000, 512, 1, 500, models), 0, 10),
        openb.TracePod("b", PodRequest(2000, 1024), 5, None),
    ]
    assert trace.capacity == 2000


def test_columns_that_say_less_may_be_absent() -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\r\na,1,1,8,1000\r\n"
    assert openb.read_pods(text, "p.csv") == [openb.TracePod("a", PodRequest(1, 1, 8, 1000))]


HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.csv:1:1: no column 'name'"),
        ("name,cpu_milli\n", "p.csv:1:1: no column 'memory_mib'"),
        (HEADER + "a,1,1,1,1000,0\n", "p.csv:2:1: 6 cells; the first line has 7"),
        (HEADER + "a,1,1,1,1000,0,1\nb,12x,1,1,1000,0,1\n", "p.csv:3:3: cpu_milli is '12x'"),
        (HEADER + "a,1,-4,1,1000,0,1\n", "p.csv:2:5: memory_mib is '-4'"),
        (HEADER + "a,1,1,1,1500,0,1\n", "p.csv:2:9: 1500 of each GPU; write 1 to 1000"),
        (HEADER + "a,1,1,1,0,0,1\n", "p.csv:2:9: 0 of each GPU"),
        (HEADER + "a,1,1,2,500,0,1\n", "p.csv:2:9: 500 of each of 2 GPUs; only one GPU"),
        (HEADER + "a,1,1,1,500,9,1\n", "p.csv:2:15: 1 is before creation_time, 9"),
        (HEADER + ",1,1,1,500,0,1\n", "p.csv:2:1: name is empty"),
        (HEADER + "a,1,,1,500,0,1\n", "p.csv:2:5: memory_mib is empty"),
        (HEADER + "a,1,1,0,0,0,1\n", "p.csv:1:1: no pod requests a GPU"),
        (HEADER + "a,1,1,٣,500,0,1\n", "p.csv:2:7: num_gpu is '٣'"),
    ],
)
def test_an_error_names_file_line_and_column(text: str, message: str) -> None:
    with pytest.raises(TraceError) as error:
        openb.read_pods(text, "p.csv")
    assert str(error.value).startswith(message)


def test_nodes_have_names_of_their_own_and_gpus() -> None:
    with pytest.raises(TraceError, match=r"n\.csv:4:1: a second node 'n0'"):
        openb.read_nodes(NODES + "n0,1,1,1,T4\n", "n.csv")
    with pytest.raises(TraceError, match=r"n\.csv:1:1: no node has a GPU"):
        openb.read_nodes("sn,cpu_milli,memory_mib,gpu,model\nn1,8000,1024,0,\n", "n.csv")
