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

from kvariates.objectives.distortion import Distortion, ItakuraSaito, KullbackLeibler
from kvariates.objectives.mahalanobis import Mahalanobis
from kvariates.objectives.total_jensen import TotalJensen
from kvariates.tables import Entry, Table

LOST = (
    "Theorem 2 is about squared Euclidean distances; for other distortions its constants "
    "depend on the data (Nock, Luosto, Kivinen 2008) and are not computed."
)

DISTORTIONS: Table[Distortion] = Table(
    "distortion",
    {
        "kl": Entry(
            KullbackLeibler(),
            "The Kullback-Leibler divergence (generalised I-divergence); rows >= 0, dense or CSR.",
            lost=LOST,
        ),
        "itakura-saito": Entry(
            ItakuraSaito(), "The Itakura-Saito divergence, for power spectra; rows > 0.", lost=LOST
        ),
        "mahalanobis": Entry(
            Mahalanobis(),
            "Squared Euclidean distance after whitening with the covariance of X.",
            theorem="Theorem 2",
        ),
        "total-jensen": Entry(
            TotalJensen(), "The total Jensen divergence, which is symmetric; rows >= 0.", lost=LOST
        ),
    },
)
