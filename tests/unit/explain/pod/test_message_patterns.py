"""Messages of schedulers and node agents are recognised by their words."""

from __future__ import annotations

import pytest

from dray.explain.pod import message_patterns
from dray.explain.pod.message_patterns import FailedBinding

PREBIND = 'running PreBind plugin "DynamicResources": '


@pytest.mark.parametrize(
    ("message", "failed"),
    [
        pytest.param(
            'device binding failed: claim=fpga, reason=NoLink, message="no link, \\"port 3\\""',
            FailedBinding("fpga", 'no link, "port 3"'),
            id="with a message",
        ),
        pytest.param(
            'device binding failed: claim=fpga, reason=NoLink, message=""',
            FailedBinding("fpga", "NoLink"),
            id="with a reason only",
        ),
        pytest.param(
            "device binding timeout: claim=fpga", FailedBinding("fpga"), id="without an answer"
        ),
        pytest.param("claim fpga got deallocated elsewhere", None, id="of another kind"),
    ],
)
def test_failures_to_attach_devices_name_the_claim_and_why(
    message: str, failed: FailedBinding | None
) -> None:
    assert message_patterns.failed_binding(PREBIND + message) == failed


def test_a_driver_is_unregistered_only_under_its_whole_name() -> None:
    message = "DRA driver gpu.example.com is not registered"
    assert message_patterns.is_unregistered("gpu.example.com", message)
    assert not message_patterns.is_unregistered("gpu.example.com.au", message)
    assert not message_patterns.is_unregistered("example.com", message)
