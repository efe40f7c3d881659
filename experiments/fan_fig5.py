"""Figure 5 of Fan et al. 2023: the number of swaps until a local optimum.

`python -m experiments.fan_fig5` uses the runs that `fan_fig2` and `fan_fig4` saved. A local
optimum is where the moving average of five costs on the way is least.
"""

from __future__ import annotations

from experiments.fan_figures import number_figure

if __name__ == "__main__":
    number_figure("fan_fig5", "iterations", "number of swaps until a local optimum")
