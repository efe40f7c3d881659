"""Reads files, frames and streams: into one matrix, or a block of rows at a time."""

from kvariates.sources.block_source import Blocks, blocks
from kvariates.sources.opened_table import DataTable, OpenedTable, open_table, read
from kvariates.sources.pieces import MissingValuesError
from kvariates.sources.scaling import Scale, StandardizedBlocks, scale_for, standardize
from kvariates.sources.text_format import TextOptions

__all__ = [
    "Blocks",
    "DataTable",
    "MissingValuesError",
    "OpenedTable",
    "Scale",
    "StandardizedBlocks",
    "TextOptions",
    "blocks",
    "open_table",
    "read",
    "scale_for",
    "standardize",
]
