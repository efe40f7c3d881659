"""k-means on a Ray cluster: actors keep the rows and answer questions about them."""

from kvariates.extras import needed

needed("ray.data", "ray")

from kvariates.ray.kmeans import KMeans  # noqa: E402

__all__ = ["KMeans"]
