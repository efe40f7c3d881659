"""The methods of `experiments.fan_costs` on two road networks.

`python -m experiments.fan_roads` makes the runs and saves the figure, the tables and the JSON.
On San Joaquin's 18,263 nodes private swaps have 2,048 candidates, centres of nodes of a tree.
"""

from __future__ import annotations

from experiments.fan_data import roads
from experiments.fan_figures import cost_figure


def main() -> None:
    """Measure, print and save."""
    cost_figure(
        "fan_roads",
        [
            lambda: roads("porto_alegre_road", "Porto Alegre"),
            lambda: roads("san_joaquin_road", "San Joaquin"),
        ],
        ks=(5, 10, 20),
    )


if __name__ == "__main__":
    main()
