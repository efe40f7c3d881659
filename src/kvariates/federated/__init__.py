"""k-means over peers that keep their rows, behind Flower.

`client_app` and `server_app` make the two apps of a Flower project; `simulate` runs both on one
machine. Needs Flower: the extra `federated` of kvariates.
"""

try:
    import flwr  # noqa: F401
except ImportError as error:
    raise ImportError(
        "kvariates.federated needs Flower: pip install 'flwr[simulation]>=1.41,<2'."
    ) from error

from kvariates.federated.client import client_app
from kvariates.federated.releases import Private
from kvariates.federated.result import FederatedResult
from kvariates.federated.server import server_app
from kvariates.federated.simulation import simulate

__all__ = ["FederatedResult", "Private", "client_app", "server_app", "simulate"]
