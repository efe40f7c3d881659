"""Reads files, frames and streams: into one matrix, or a block of rows at a time."""

from kvariates.sources.block_source import Blocks, blocks
from kvariates.sources.data_table import DataTable, Scale, read, read_values, standardize
from kvariates.sources.standardized import StandardizedBlocks

__all__ = [
    "Blocks",
    "DataTable",
    "Scale",
    "StandardizedBlocks",
    "blocks",
    "read",
    "read_values",
    "standardize",
]
