"""Distortions other than squared Euclidean: how far a row is from a centre, and the best centre.

| name          | D(x, c)                                          | rows      | best centre  |
|---------------|--------------------------------------------------|-----------|--------------|
| kl            | sum x log(x/c) - x + c                           | >= 0, CSR | mean         |
| itakura-saito | sum x/c - log(x/c) - 1                           | > 0       | mean         |
| mahalanobis   | squared Euclidean of whitened rows               | any       | mean         |
| total-jensen  | ((F(x)+F(c))/2 - F((x+c)/2)) / sqrt(1 + slope^2) | >= 0      | by iteration |

The first three are Bregman divergences phi(x) - phi(c) - <grad phi(c), x - c>, for which the
weighted mean is the best centre whatever phi (Banerjee et al. 2005). The last one (Nielsen and Nock
2015) has F(x) = sum x log x - x and slope = (F(x) - F(c)) / ||x - c||.
"""

from __future__ import annotations

from kvariates.objectives.bregman import ItakuraSaito, KullbackLeibler
from kvariates.objectives.distortion import Distortion
from kvariates.objectives.mahalanobis import Mahalanobis
from kvariates.objectives.total_jensen import TotalJensen

DISTORTIONS: dict[str, Distortion] = {
    distortion.name: distortion
    for distortion in (KullbackLeibler(), ItakuraSaito(), Mahalanobis(), TotalJensen())
}
