"""k-means on a Dask cluster: one peer for each partition, kept where its data is.

    statistics travel, and few rows: the client gets first centres and candidates for them,
    and rows that fill empty clusters

`DaskTransport` carries the questions of `peers`; `KMeans` and `StreamingSummary` are the public
interface.
"""

from kvariates.extras import needed

needed("dask", "dask")
needed("distributed", "dask")

from kvariates.dask.kmeans import KMeans  # noqa: E402
from kvariates.dask.summary import StreamingSummary  # noqa: E402
from kvariates.dask.transport import DaskTransport  # noqa: E402

__all__ = ["DaskTransport", "KMeans", "StreamingSummary"]
