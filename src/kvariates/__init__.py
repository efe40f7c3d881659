"""k-clustering with guarantees: k-means and k-median seeded with care and a promise."""

from kvariates.estimators.kmeans import KMeans
from kvariates.estimators.seeding import kmeans_plusplus

__version__ = "0.1.0"

__all__ = ["KMeans", "__version__", "kmeans_plusplus"]
