"""How API servers and node agents know each other."""

from __future__ import annotations

from typing import Final

CERTIFICATE_ANNOTATION: Final = "dray.dev/agent-certificate"
"""Of a Node: the certificate of its agent. Only the node itself may write it, so it is proven."""
API_SERVER_NAME: Final = "kube-apiserver-kubelet-client"
"""The name in the certificate by which an API server asks nodes."""
EXEC, ATTACH, LOGS = "exec", "attach", "containerLogs"
"""What an agent is asked for: the first part of its paths, as a kubelet's."""
IN_NAME_ONLY: Final = "none://"
"""How the runtime version of a node begins that starts nothing."""
