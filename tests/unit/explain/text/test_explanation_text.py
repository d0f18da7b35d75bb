"""Words: short, with numbers that can be read, and a JSON form beside them."""

from __future__ import annotations

import json
from typing import Any

from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation
from dray.explain.text import explanation_text
from tests.builders import claim, cluster_inventory, gpu_slice, hold, node, request


def refused() -> Explanation:
    cluster = cluster_inventory(
        gpu_slice("n1", 2), nodes=[node(f"cpu{number}") for number in range(1200)]
    )
    hold(cluster, "other", "gpu-0")
    return claim_explanation.explain(cluster, [claim(request("gpu", count=2))], new_share_id=str)


def test_numbers_have_thousands_separators() -> None:
    assert "does not fit on any of 1,201 nodes" in explanation_text.text(refused())


def test_summary_is_one_line_with_causes_and_the_smallest_change() -> None:
    assert explanation_text.summary(refused()) == (
        "1 node: fewer than 2 devices are free (held by default/other); "
        "1,200 nodes: no devices that can be used. "
        "Would fit: wait until claim default/other ends."
    )


def test_json_has_data_and_words_and_ids_as_text() -> None:
    built: dict[str, Any] = json.loads(json.dumps(explanation_text.as_json(refused())))
    assert built["outcome"] == "refused"
    assert built["claims"] == ["default/train"]
    change = built["changes"][0]
    assert (change["change"], change["holder"]) == ("WaitForClaim", "default/other")
    assert change["text"] == "wait until claim default/other ends"
    taken = next(
        stage for stage in built["funnels"][0]["stages"] if stage["filter"]["kind"] == "taken"
    )
    assert taken["holders"] == [{"claim": "default/other", "devices": 1}]
    assert taken["example"] == "gpu.example.com/n1/gpu-0"
    assert built["reasons"][0]["text"] == "fewer than 2 devices are free"
