"""Where randomness comes from, as a named policy that the certificate records.

``secure`` (default)  ChaCha20 keyed afresh from the operating system for *every* draw, and for every 16,384 numbers of a large
                      one, which threads share. The source holds no state, so a fork, a copy, a pickle, a thread or a restored
                      snapshot cannot make two draws share noise.
``exact``             integer discrete-Gaussian samples from OpenDP's exact sampler (extra ``dperm[exact]``).
``seeded``            reproducible, for tests and papers. NOT private: whoever knows the seed can subtract the noise.

Every released number lies on a public grid (`release`): the value is an integer count of grid steps, the noise is rounded to the
same grid, and the sum is an integer again. The low bits of the answer then say nothing about which part was the secret.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.problem.arrays import Array, namespace
from dperm.problem.plain import is_number, plain_whole
from dperm.release.record import NoiseRecord
from dperm.rows.base import one_blas_thread
from dperm.rows.device_sums import beside

POLICIES = ("secure", "exact", "seeded")

PART = 1 << 14  # numbers under one key
MANY = 1 << 15  # from here on a draw is worth threads, and the driver begins it while rows are summed

# What `random_state=` may be, as in scikit-learn; None means noise that protects.
RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


class Noise(Protocol):
    """A source of random numbers with a name."""

    policy: str

    def generator(self) -> np.random.Generator: ...

    def normal(self, scale: float, size: int | tuple[int, ...]) -> NDArray[np.float64]: ...

    def spec(self) -> NoiseRecord: ...


class SecureNoise:
    """ChaCha20 bit stream, 256-bit key from the operating system, a new key for every call of `generator`."""

    policy = "secure"

    def generator(self) -> np.random.Generator:
        from randomgen import ChaCha

        return np.random.Generator(ChaCha(key=secrets.randbits(256), rounds=20))

    def normal(self, scale: float, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        if math.prod(size if isinstance(size, tuple) else (size,)) < MANY:
            return np.asarray(scale * self.generator().standard_normal(size))
        found = np.empty(size)
        parts = np.array_split(found.reshape(-1), -(-found.size // PART))

        def draw(part: NDArray[np.float64]) -> None:
            self.generator().standard_normal(out=part)
            np.multiply(part, scale, out=part)

        with one_blas_thread() as threads, ThreadPoolExecutor(threads) as pool:
            list(pool.map(draw, parts))
        return found

    def spec(self) -> NoiseRecord:
        return {"policy": self.policy}


class SeededNoise:
    """A reproducible stream. The certificate of a fit that used it says in words that the result is NOT private."""

    policy = "seeded"

    def __init__(self, seed: int) -> None:
        self.seed = int(seed)
        self._generator = np.random.Generator(np.random.Philox(self.seed))

    def generator(self) -> np.random.Generator:
        return self._generator

    def normal(self, scale: float, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        return np.asarray(scale * self._generator.standard_normal(size))

    def spec(self) -> NoiseRecord:
        return {"policy": self.policy, "seed": self.seed}


class ExactNoise(SecureNoise):
    """Discrete Gaussian noise from OpenDP's exact integer sampler; every other distribution is refused.

    The noise is drawn on the integers with scale ≥ 2²⁰ grid steps. There its probability mass differs from that of a rounded
    continuous Gaussian by a factor within 1 ± 1e-10 on |k| ≤ 40 scales, so the 0.1 % that `RELEASE_SLACK` adds to every scale
    covers the difference and the Gaussian accounting stands.
    """

    policy = "exact"

    def generator(self) -> np.random.Generator:
        raise ValueError(
            "Expected a mechanism with Gaussian noise only under noise='exact', found one that draws other noise. "
            "Use noise='secure', or method='gradient' or 'statistics'."
        )

    def integers(self, scale: float, size: int) -> NDArray[np.int64]:
        """`size` independent discrete Gaussians on ℤ with standard parameter `scale`."""
        return np.asarray(_discrete_gaussian(scale)([0] * size), dtype=np.int64)


@lru_cache(maxsize=16)
def _discrete_gaussian(scale: float) -> Callable[[list[int]], list[int]]:
    """The sampler of one scale: a pure description, kept because making it costs more than a draw. It holds no random state."""
    try:
        import opendp.prelude as dp
        from opendp.measurements import make_gaussian
    except ImportError as error:
        raise ValueError(
            "Expected the package opendp for noise='exact', found none. Install dperm[exact], or use noise='secure'."
        ) from error
    dp.enable_features("contrib")
    domain, distance = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    sampler: Callable[[list[int]], list[int]] = make_gaussian(domain, distance, scale)
    return sampler


def noise_source(policy: str = "secure", random_state: object = None) -> Noise:
    """The source named by `policy`; a `random_state` always means the reproducible one.

    >>> noise_source().policy, noise_source(random_state=7).policy
    ('secure', 'seeded')
    """
    if policy not in POLICIES:
        raise ValueError(f"Expected noise in {POLICIES}, found {policy!r}. Use 'secure' unless you know why not.")
    if random_state is not None:
        if isinstance(random_state, np.random.Generator):
            return SeededNoise(int(random_state.integers(2**62)))
        if isinstance(random_state, np.random.RandomState):
            return SeededNoise(int(random_state.randint(2**31)))
        if not (is_number(random_state) and isinstance(random_state, Integral)):
            raise ValueError(
                f"Expected random_state= as a whole number or a NumPy generator, found {type(random_state).__name__}. Leave it "
                "out for a private fit."
            )
        seed = plain_whole(random_state, "random_state")
        if seed < 0:
            raise ValueError(f"Expected random_state ≥ 0, found {seed}. Leave it out for a private fit.")
        return SeededNoise(seed)
    if policy == "seeded":
        raise ValueError("Expected random_state= with noise='seeded', found none. Pass random_state=0, or noise='secure'.")
    return ExactNoise() if policy == "exact" else SecureNoise()


# A sum of pairs moves by its declared sensitivity, to 1e-9 of it (tests/terms/test_exact_sums.py). What is released may move by a
# little more: the grid of the release takes 1/8192 of the sensitivity, the float sums of a whole solve some rounding, the fused
# kernel of a device a rounding for each row. The total stays below 0.1 %, and every scale is raised by as much.
RELEASE_SLACK = 1.001


def gaussian_scale(sensitivity: float, mu: float) -> float:
    """Standard deviation that makes a release of this ℓ2-sensitivity μ-GDP: RELEASE_SLACK·Δ/μ."""
    return RELEASE_SLACK * sensitivity / mu


def grid_step(scale: float, sensitivity: float, size: int) -> float:
    """Largest power of two ≤ min(scale·2⁻²⁰, Δ·2⁻¹³/√p).

    The first keeps the grid far below the noise, so accuracy does not feel it; the second keeps the extra sensitivity of
    rounding the value, at most √p grid steps, below 1/8192 of Δ, well inside the slack.
    """
    return float(2.0 ** math.floor(math.log2(min(scale * 2.0**-20, sensitivity * 2.0**-13 / math.sqrt(size)))))


def grid_counts(shape: tuple[int, ...], scale: float, step: float, noise: Noise) -> NDArray[np.float64]:
    """Gaussian noise of this standard deviation in whole numbers of steps: rounded, or drawn on the integers."""
    if isinstance(noise, ExactNoise):
        return noise.integers(scale / step, math.prod(shape)).reshape(shape).astype(np.float64)
    return np.asarray(np.rint(noise.normal(scale, shape) / step))


@dataclass(frozen=True)
class GridNoise:
    """Gaussian noise in whole numbers of a public grid. It follows from public numbers: the value need not be known yet."""

    counts: NDArray[np.float64]
    step: float

    @staticmethod
    def drawn(shape: tuple[int, ...], *, sensitivity: float, mu: float, noise: Noise) -> GridNoise:
        scale = gaussian_scale(sensitivity, mu)
        step = grid_step(scale, sensitivity, math.prod(shape))
        return GridNoise(grid_counts(shape, scale, step, noise), step)

    def added_to(self, value: Array) -> Array:
        """The value to the nearest step, with the noise; on the device that holds the value."""
        return (namespace(value).round(value / self.step) + beside(self.counts, value)) * self.step


def release(value: ArrayLike, *, sensitivity: float, mu: float, noise: Noise) -> NDArray[np.float64]:
    """value + N(0, (RELEASE_SLACK·Δ/μ)²·I), everything on one public grid.

    **Guarantee**: μ-GDP for a value of ℓ2-sensitivity Δ, in the real-arithmetic model of the noise. Proof: the computed value
    has sensitivity at most RELEASE_SLACK·Δ (grid included), and rounding the noisy value to the grid is post-processing:
    rint(v) + rint(z) for an integer rint(v) equals rint(rint(v) + z).
    """
    values = np.asarray(value, dtype=np.float64)
    return np.asarray(GridNoise.drawn(values.shape, sensitivity=sensitivity, mu=mu, noise=noise).added_to(values))


def gamma_norm_vector(dimension: int, scale: float, noise: Noise) -> NDArray[np.float64]:
    """A vector with density ∝ exp(-‖b‖₂/scale) on ℝᵖ: uniform direction, norm ~ Gamma(p, scale). E‖b‖ = p·scale.

    **Guarantee**: added to a value of ℓ2-sensitivity Δ with scale = Δ/ε it is ε-DP (the norm changes by at most Δ).
    """
    generator = noise.generator()
    direction = generator.standard_normal(dimension)
    direction /= np.linalg.norm(direction)
    return np.asarray(generator.gamma(dimension, scale) * direction, dtype=np.float64)
