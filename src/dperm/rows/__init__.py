"""Rows: data that can be summed block by block. `MemoryRows` here; Arrow, device and Dask rows in files of their own."""

from dperm.rows.base import BLOCK_ROWS, Block, Rows, Term, sum_step
from dperm.rows.memory import MemoryRows

__all__ = ["BLOCK_ROWS", "Block", "MemoryRows", "Rows", "Term", "sum_step"]
