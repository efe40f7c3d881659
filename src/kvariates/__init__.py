"""k-clustering with guarantees: k-means and k-median seeded with care and a promise."""

from kvariates import _openmp

_openmp.load()

from kvariates.estimators.kmeans import KMeans  # noqa: E402
from kvariates.estimators.seeding import kmeans_plusplus  # noqa: E402

__version__ = "0.1.0"

__all__ = ["KMeans", "__version__", "kmeans_plusplus"]
