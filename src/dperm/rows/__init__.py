"""Rows: data that can be summed block by block, in memory, on disk, on a GPU or on a cluster.

Every engine cuts the same blocks and adds them as integers, so the sums agree. Engines are imported when first used: only
`MemoryRows` needs nothing beyond NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dperm.rows.base import BLOCK_ROWS, Block, Rows, Term, sum_step
from dperm.rows.memory import MemoryRows

if TYPE_CHECKING:
    from dperm.rows.arrow import ArrowRows as ArrowRows
    from dperm.rows.dask import DaskRows as DaskRows
    from dperm.rows.device import DeviceRows as DeviceRows
    from dperm.rows.spark import SparkRows as SparkRows
    from dperm.rows.streams import rows_from as rows_from

_ENGINES = {
    "ArrowRows": "dperm.rows.arrow",
    "DaskRows": "dperm.rows.dask",
    "DeviceRows": "dperm.rows.device",
    "SparkRows": "dperm.rows.spark",
    "rows_from": "dperm.rows.streams",
}

__all__ = ["BLOCK_ROWS", "Block", "MemoryRows", "Rows", "Term", "sum_step", *_ENGINES]


def __getattr__(name: str) -> object:
    if name in _ENGINES:
        return getattr(importlib.import_module(_ENGINES[name]), name)
    raise AttributeError(f"module 'dperm.rows' has no attribute {name!r}")
