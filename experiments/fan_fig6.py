"""Figure 6 of Fan et al. 2023: the cost of the best set on the way.

`python -m experiments.fan_fig6` uses the runs that `fan_fig2` and `fan_fig4` saved.
"""

from __future__ import annotations

from experiments.fan_figures import number_figure

if __name__ == "__main__":
    number_figure("fan_fig6", "best", "cost of the best set on the way")
