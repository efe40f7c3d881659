"""The side of the coordinator. The values come from pyproject.toml, or from `flwr run -c`."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from hospitals import BOUNDS
from kvariates.federated import server_app

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for the hospitals, fit, and write the result."""
    config = context.run_config
    fit = server_app(
        int(config["n-clusters"]),
        bounds=BOUNDS,
        max_rows=100_000,
        max_iter=int(config["steps"]),
        wait_for=int(config["peers"]),
        timeout=float(config["timeout"]),
        random_state=int(config["seed"]),
        save_to=str(config["save-to"]),
    )
    fit(grid, context)
