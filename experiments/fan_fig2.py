"""Figure 2 of Fan et al. 2023: MNIST under l2, and the graph with r = 1.

`python -m experiments.fan_fig2` makes the runs and saves the figure, the tables and the JSON, which
`fan_fig5` and `fan_fig6` use too. `experiments.fan_costs` says what runs.
"""

from __future__ import annotations

from experiments.fan_data import graph, mnist
from experiments.fan_figures import cost_figure


def main() -> None:
    """Measure, print and save."""
    cost_figure("fan_fig2", [lambda: graph(1.0), lambda: mnist("euclidean")])


if __name__ == "__main__":
    main()
