"""k-means over peers that keep their rows, or parties that keep their columns, behind Flower.

`client_app` and `server_app` make the two apps of a Flower project; `simulate` runs both on one
machine. `vertical_client_app`, `vertical_server_app` and `simulate_vertical` are for parties that
hold different columns of the same rows. Needs Flower: the extra `federated` of kvariates.
"""

from kvariates.extras import needed

needed("flwr", "federated")
needed("cryptography", "federated")

from kvariates.federated.client import FEDERATED, client_app  # noqa: E402
from kvariates.federated.private_peer import Private  # noqa: E402
from kvariates.federated.server import FederatedResult, server_app, simulate  # noqa: E402
from kvariates.federated.vertical import (  # noqa: E402
    PartyResult,
    VerticalFederatedResult,
    simulate_vertical,
    vertical_client_app,
    vertical_server_app,
)
from kvariates.peers.vertical import PartyLost  # noqa: E402

__all__ = [
    "FEDERATED",
    "FederatedResult",
    "PartyLost",
    "PartyResult",
    "Private",
    "VerticalFederatedResult",
    "client_app",
    "server_app",
    "simulate",
    "simulate_vertical",
    "vertical_client_app",
    "vertical_server_app",
]
