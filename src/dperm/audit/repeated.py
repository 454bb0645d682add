"""The same planned run, many times: plan once (a plan is a function of public numbers), then run and reconcile each trial."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dperm.problem import Problem
from dperm.problem.arrays import Vector
from dperm.release.noise import Noise, noise_source
from dperm.release.plan import Mechanism, Plan, Shape, Target
from dperm.rows import MemoryRows
from dperm.walk.fitting import execute, plan


def repeated(
    problem: Problem, target: Target, mechanism: Mechanism, *, noise: Noise | None = None, nominal_n: int | None = None
) -> Callable[[tuple[Vector, ...]], Vector]:
    """data ↦ released coefficients; data is (X, y) or (X, y, weight), as `MemoryRows` takes them.

    The driver, the mechanism and the reconciliation are those of `dperm.fit`; only planning and the certificate are left out.
    """
    plans: dict[Shape, Plan] = {}

    def run(data: tuple[Vector, ...]) -> Vector:
        rows = MemoryRows(*data)
        shape = Shape(nominal_n if nominal_n is not None else rows.n, rows.d)
        if shape not in plans:
            plans[shape] = plan(problem, shape, target, mechanism)
        planned = plans[shape]
        source = noise_source() if noise is None else noise
        bounded = rows.bounded(problem.data, problem.feature_map)
        return np.ravel(execute(mechanism.program(planned, problem), planned, bounded, source)[0].w)

    return run
