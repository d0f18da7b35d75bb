"""What a real Kubernetes 1.37 refused, refused here: code, reason, message and causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.apiserver.server import Settings
from tests.recorded import GOLDEN, without_shown_objects
from tests.wire.serving import Answer, Api, all_alpha, with_api

KNOWN_DIFFERENCES: dict[str, str] = {}
"""Cases in which dray answers otherwise on purpose; each is in docs/compatibility.md."""


@pytest.mark.parametrize("case", GOLDEN.parents("e*/status.json"))
def test_same_refusal(case: str, tmp_path: Path) -> None:
    manifest = GOLDEN.read(f"{case}/manifest.yaml")
    documents = [each for each in yaml.safe_load_all(manifest) if each]
    answers = GOLDEN.json(f"{case}/status.json")

    async def replay(api: Api) -> list[Answer]:
        found = []
        for recorded, document in zip(answers, documents, strict=False):
            method, _, url = recorded["request"].partition(" ")
            found.append(await api(method, url, document))
        return found

    for expected, found in zip(
        answers, with_api(replay, tmp_path, Settings(features=all_alpha())), strict=False
    ):
        if case in KNOWN_DIFFERENCES:
            continue
        assert found.status == expected["code"], found.body
        if found.status >= 400:
            assert comparable(found.json) == comparable(expected["body"])


def comparable(status: dict[str, Any]) -> Any:
    """Return a Status without order among its causes, as maps have none in Go.

    Structs that it shows are left out.
    """
    details = status.get("details", {})
    causes = sorted(
        json.dumps({**cause, "message": without_shown_objects(cause["message"])}, sort_keys=True)
        for cause in details.get("causes", ())
    )
    text = without_shown_objects(status["message"])
    message = text if len(causes) < 2 else sorted(text.split(", "))
    others = {key: value for key, value in details.items() if key != "causes"}
    return status["code"], status.get("reason"), message, causes, others
