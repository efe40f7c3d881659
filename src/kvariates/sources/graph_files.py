"""Reads a graph: a sparse matrix of edge lengths (.npz, .mtx), or a text table of edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.sources.columns import listed
from kvariates.sources.input_file import PathOrUrl
from kvariates.sources.opened_table import DataTable, OpenedTable, open_table
from kvariates.sources.text_format import TextOptions

ENDS = (("from", "to"), ("source", "target"), ("u", "v"), ("node1", "node2"), ("start", "end"))
NODES = ("node", "id", "name")
PLACES = (("lon", "lat"), ("longitude", "latitude"), ("lng", "lat"), ("x", "y"))
LENGTHS = ("length", "len", "weight", "distance", "dist", "cost", "w")


@dataclass(frozen=True, eq=False)
class GraphTable:
    """Nodes and the lengths of edges."""

    lengths: Any  # a symmetric CSR matrix; of several edges between two nodes, the shortest
    nodes: NDArray[Any]  # their names: text or integers
    remarks: tuple[str, ...]  # how the file was read, in lines for the user


def read_graph(path: str | PathOrUrl, text: TextOptions | None = None) -> GraphTable:
    """Read a graph. Raises ValueError if the file holds none."""
    opened = open_table(path, text)
    if opened.matrix is not None:
        return _of_matrix(opened)
    if len(opened.names) in (2, 3) or _columns_by_name(opened):
        return _of_edges(opened)
    raise ValueError(
        f"{path}: a graph is a sparse matrix, or a table of edges: from, to and, if edges have "
        f"lengths, length; this table has {len(opened.names)} columns ({listed(opened.names)})"
    )


def _of_matrix(opened: OpenedTable) -> GraphTable:
    lengths, remarks = opened.matrix.astype(np.float64), opened.remarks
    if lengths.shape[0] != lengths.shape[1]:
        raise ValueError(f"{opened.path}: the matrix of a graph is square, not {lengths.shape}")
    if abs(lengths - lengths.T).nnz:
        coo = lengths.tocoo()
        lengths = _symmetric(coo.row, coo.col, coo.data, lengths.shape[0])
        remarks = (*remarks, "the matrix is not symmetric: edges count in both directions")
    return GraphTable(lengths, np.arange(lengths.shape[0]), remarks)


def _columns_by_name(opened: OpenedTable) -> list[str]:
    """The columns of the two ends and, if there is one, of the length, by their names."""
    known = {name.lower(): name for name in opened.names}
    for first, second in ENDS:
        if first in known and second in known:
            others = [name for name in opened.names if name.lower() not in (first, second)]
            length = next((known[name] for name in LENGTHS if name in known), None)
            length = others[0] if length is None and len(others) == 1 else length
            return [known[first], known[second], *([length] if length else [])]
    return []


def _of_edges(opened: OpenedTable) -> GraphTable:
    columns = _columns_by_name(opened) or opened.names[:3]
    if len(columns) < 2:
        raise ValueError(f"{opened.path}: a table of edges has two columns of nodes, from and to")
    ends = [opened.complete_values(name) for name in columns[:2]]
    if any(end.dtype.kind not in "iuOU" for end in ends):
        raise ValueError(f"{opened.path}: {columns[0]} and {columns[1]} must be names of nodes")
    if {end.dtype.kind for end in ends} & {"O", "U"}:
        ends = [end.astype(str) for end in ends]
    remark, length = f"each row is an edge: {columns[0]}, {columns[1]}", np.ones(len(ends[0]))
    if len(columns) == 3:
        length = opened.table([columns[2]]).X[:, 0].astype(np.float64)
        remark += f", and its length: {columns[2]}"
    if not len(ends[0]):
        raise ValueError(f"{opened.path}: no rows")
    if (length < 0).any():
        row = int(np.argmax(length < 0))
        raise ValueError(
            f"{opened.path}: the edge from {ends[0][row]} to {ends[1][row]} in row {row + 1} has "
            f"the length {length[row]:g}, below 0"
        )
    nodes, number = np.unique(np.concatenate(ends), return_inverse=True)
    one, two = np.split(number, 2)
    return GraphTable(_symmetric(one, two, length, len(nodes)), nodes, (*opened.remarks, remark))


def _symmetric(one: Any, two: Any, length: Any, n: int) -> Any:
    """Edges in both directions, without loops; of several, the shortest."""
    low, high = np.minimum(one, two), np.maximum(one, two)
    order = np.lexsort((length, high, low))
    low, high, length = low[order], high[order], length[order]
    first = np.ones(len(low), bool)
    first[1:] = (np.diff(low) != 0) | (np.diff(high) != 0)
    first &= low != high
    a, b, w = low[first], high[first], length[first]
    both = (np.concatenate([w, w]), (np.concatenate([a, b]), np.concatenate([b, a])))
    return sparse.coo_matrix(both, shape=(n, n)).tocsr()


def read_places(
    path: str | PathOrUrl, nodes: NDArray[Any], text: TextOptions | None = None
) -> DataTable:
    """Read where nodes are: a table with a column of nodes and two columns of coordinates.

    The nodes are in a column called node or id, else in the first; of the other columns of numbers,
    two are the coordinates: those called lon and lat, or x and y, else the first two.
    """
    opened = open_table(path, text)
    column = next((name for name in opened.names if name.lower() in NODES), opened.names[0])
    numbers = [name for name in opened.names if name in opened.numeric and name != column]
    known = {name.lower(): name for name in numbers}
    pair = next(([known[a], known[b]] for a, b in PLACES if {a, b} <= known.keys()), numbers[:2])
    if len(pair) < 2:
        raise ValueError(
            f"{path}: a table of nodes has a column of nodes, and two of coordinates, as lon and "
            f"lat; this one has {listed(opened.names)}"
        )
    names = [str(name) for name in opened.complete_values(column).tolist()]
    row = {name: i for i, name in enumerate(names)}
    if len(row) < len(names):
        twice = next(name for i, name in enumerate(names) if row[name] != i)
        raise ValueError(f"{path}: node {twice} is in several rows")
    missing = [str(node) for node in nodes.tolist() if str(node) not in row]
    if missing:
        raise ValueError(
            f"{path}: {len(missing):,} nodes of the graph have no coordinates: {listed(missing, 3)}"
        )
    X = opened.table(pair).X[[row[str(node)] for node in nodes.tolist()]]
    return DataTable(X.astype(np.float64), tuple(pair), opened.path)


def edge_list(lengths: Any) -> NDArray[np.int64]:
    """The edges of a graph as pairs of nodes, each once."""
    upper = sparse.triu(lengths, 1).tocoo()
    return np.column_stack([upper.row, upper.col]).astype(np.int64)
