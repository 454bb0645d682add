"""The table that the Spark tests fit on, classic and Connect, and its schema."""

from __future__ import annotations

import numpy as np
import pandas as pd

import dperm

N = 9000
SCHEMA = dperm.Schema.from_dict(
    {
        "columns": {
            "age": {"type": "numeric", "low": 0, "high": 100},
            "height": {"type": "numeric", "low": 100, "high": 220},
            "place": {"type": "categorical", "levels": ["north", "south"]},
            "who": {"type": "ignored"},
            "weight": {"type": "ignored"},
            "number": {"type": "ignored"},
        },
        "target": {"column": "income", "type": "classes", "classes": ["small", "large"]},
    }
)


def raw():
    generator = np.random.default_rng(3)
    age, height = generator.uniform(-5, 120, N), generator.normal(170, 20, N)
    age[[5, 700]] = np.nan, np.inf
    large = generator.logistic(size=N) < (np.nan_to_num(age, posinf=0) - 50) / 20
    return pd.DataFrame(
        {
            "age": age,
            "height": height,
            "place": generator.choice(np.array(["north", "south", "west", None], dtype=object), N),
            "income": np.where(generator.random(N) < 0.02, "?", np.where(large, "large", "small")),
            "who": generator.integers(0, N // 4, N),
            "weight": generator.uniform(-0.5, 3, N),
            "number": generator.permutation(N),
        }
    )
