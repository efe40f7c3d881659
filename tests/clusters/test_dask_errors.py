"""Input that is refused, in one line that says what, where and what to do."""

import numpy as np
import pandas as pd
import pytest
from dask import array as da
from dask import dataframe as dd
from dask import delayed
from distributed import Client

from kvariates.dask import KMeans, StreamingSummary


def refused(client, X, weight=None, k=3, error=ValueError):
    with pytest.raises(error) as caught:
        KMeans(k, random_state=0, client=client).fit(X, sample_weight=weight)
    message = str(caught.value)
    assert "\n" not in message
    return message


def blocks(*arrays):
    return [delayed(array) for array in arrays]


def frame(**columns):
    return pd.DataFrame(columns)


def test_values_whose_squares_overflow(client, rows):
    message = refused(client, da.from_array(rows * 1e155, chunks=(500, 4)))
    assert message.startswith("The values of X are too large")


@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_a_value_that_is_missing(client, rows, value, words):
    X = rows.copy()
    X[1507, 2] = value
    message = refused(client, da.from_array(X, chunks=(500, 4)))
    assert message.startswith(f"partition 3, row 7, column 2: the value is {words}")
    named = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=6)
    assert refused(client, named).startswith("partition 3, row 7, column 'c': the value is")


def test_text(client):
    table = frame(a=range(20), name=["x"] * 20)
    message = refused(client, dd.from_pandas(table, npartitions=2))
    assert message == "partition 0: not numeric: name; select numeric columns, as X[['a', 'b']]."
    assert "could not convert" in refused(client, blocks(np.array([["a"], ["b"]], dtype=object)))


def test_other_shapes(client, rows):
    assert "1 dimensions; it must have 2" in refused(client, da.ones(5))
    assert "Series; give a DataFrame" in refused(client, dd.from_pandas(pd.Series([1.0, 2.0])))
    centers = KMeans(3, init=rows[:3, :2], client=client)
    with pytest.raises(ValueError, match="does not match the number of features"):
        centers.fit(da.from_array(rows))


def test_weights(client, rows):
    X = da.from_array(rows, chunks=(1000, 4))
    weight = np.ones(3000)
    assert "has 2999 values for 3000 rows" in refused(client, X, weight[:-1])
    weight[2500] = -1
    assert "partition 2, row 500: sample_weight is -1" in refused(client, X, weight)
    assert "zero for every row" in refused(client, X, np.zeros(3000))
    assert "has 1 partitions, but X has 3" in refused(client, X, blocks(np.ones(3000)))
    wrong = blocks(np.ones(1000), np.ones(999), np.ones(1000))
    assert "partition 1: sample_weight has shape (999,)" in refused(client, X, wrong)


def test_clients(threads, rows):
    X = da.from_array(rows)
    closed = threads(1)
    closed.close()
    assert refused(closed, X).startswith("client is closed")
    assert "give a distributed.Client" in refused("tcp://127.0.0.1:1", X, error=TypeError)


def test_an_asynchronous_client(threads, rows):
    import asyncio

    address = threads(1).cluster.scheduler_address

    async def connect():
        async with Client(address, asynchronous=True, set_as_default=False) as client:
            return refused(client, da.from_array(rows))

    assert "asynchronous" in asyncio.run(connect())


def test_an_error_of_the_graph_is_the_users(client):
    with pytest.raises(FileNotFoundError):
        KMeans(3, client=client).fit([delayed(np.load)("nothing.npy")])


def test_prediction(client, rows):
    X = da.from_array(rows, chunks=(1000, 4))
    model = KMeans(3, random_state=0, client=client).fit(X)
    with pytest.raises(ValueError, match=r"partition \d has 3 features, but the model was fitted"):
        model.predict(X[:, :3]).compute()
    hole = rows.copy()
    hole[1000, 0] = np.nan
    with pytest.raises(ValueError, match="partition 1, row 0, column 0: the value is NaN"):
        model.transform(da.from_array(hole, chunks=(1000, 4))).compute()


def test_summary(client, rows):
    with pytest.raises(ValueError, match="partition 1, row 3: sample_weight"):
        StreamingSummary(100, 3, client=client).fit(
            da.from_array(rows, chunks=1000), sample_weight=np.where(np.arange(3000) == 1003, -1, 1)
        )
    with pytest.raises(ValueError, match="no rows of positive weight"):
        StreamingSummary(100, 3, client=client).fit(blocks(rows[:0]))
    with pytest.raises(ValueError, match=r"\[2, 4\] features"):
        StreamingSummary(100, 3, client=client).fit(blocks(rows, rows[:, :2]))
