"""The side of the aggregator. The values come from pyproject.toml, or from `flwr run -c`."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from kvariates.federated import vertical_server_app

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Wait for the parties, fit, and write the result."""
    config = context.run_config
    fit = vertical_server_app(
        int(config["n-clusters"]),
        n_parties=int(config["parties"]),
        max_iter=int(config["max-iter"]),
        timeout=float(config["timeout"]),
        random_state=int(config["seed"]),
        save_to=str(config["save-to"]),
    )
    fit(grid, context)
