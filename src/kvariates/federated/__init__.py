"""k-means over peers that keep their rows, or parties that keep their columns, behind Flower.

`client_app` and `server_app` make the two apps of a Flower project; `simulate` runs both on one
machine. `vertical_client_app`, `vertical_server_app` and `simulate_vertical` are for parties that
hold different columns of the same rows. Needs Flower: the extra `federated` of kvariates.
"""

try:
    import flwr  # noqa: F401
except ImportError as error:
    raise ImportError(
        "kvariates.federated needs Flower: pip install 'flwr[simulation]>=1.41,<2'."
    ) from error

from kvariates.federated.client import FEDERATED, client_app
from kvariates.federated.flower_parties import PartyLost
from kvariates.federated.releases import Private
from kvariates.federated.result import FederatedResult
from kvariates.federated.server import server_app
from kvariates.federated.simulation import simulate, simulate_vertical
from kvariates.federated.vertical_client import PartyResult, vertical_client_app
from kvariates.federated.vertical_server import VerticalFederatedResult, vertical_server_app

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
