"""k-means on a Dask cluster: one peer for each partition, kept where its data is.

    statistics travel, and few rows: the client gets first centres and candidates for them,
    and rows that fill empty clusters

`DaskTransport` carries the questions of `peers`; `KMeans` and `StreamingSummary` are the public
interface.
"""

try:
    import dask  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "kvariates.dask needs Dask: pip install 'dask[array,dataframe]' distributed."
    ) from error

from kvariates.dask.dask_kmeans import KMeans
from kvariates.dask.dask_transport import DaskTransport
from kvariates.dask.summary import StreamingSummary

__all__ = ["DaskTransport", "KMeans", "StreamingSummary"]
