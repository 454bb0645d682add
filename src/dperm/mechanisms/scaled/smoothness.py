"""How smooth the shapes of an additive model are: from released histograms to a basis, and from predicted noise to its weights.

Everything here is pure and post-processing: `verify` replays it on the released histograms.

*Basis.* A column's histogram is denoised (`denoised`) to p̂. u is the position of a cell among the rows, nine parts quantile and
one part equal width. The Brownian kernel min(u, u') over the cells, centred under p̃ = 0.99·p̂ + 0.01·uniform, has eigenfunctions
e_k, orthonormal under p̃, with eigenvalues w_k ~ k⁻². Features √λ_k·e_k(cell) have variance λ_k = A·(w_k/w_1)^q. A clip and
Gaussian noise are invariant under rotations, so only this kernel matters, and not the basis that it is written in.

*Smoothness.* The noise that the descent adds to a prediction, with g = (cS/(μn))², S² = 1 + Σλ_j and h the curvature of the loss,
is about N = g·Σ_j min(0.6·λ_j·τ², 2/(h²λ_j)): flat directions, and learned ones after averaging. The first (A, q) of the ladder
whose noise exceeds the line's by little, and whose flow is not cut short by its own noise, is taken; if none is, or if
the line itself drowns in noise (ν > 0.2), the model is the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dperm.release.plan import Settings, Shape, Vector
from dperm.terms.additive import CELLS, PLACES

MIDDLES = (np.arange(CELLS) + 0.5) / CELLS - 0.5  # encoded numbers in the middle of every cell
FUNCTIONS = 32  # eigenfunctions that are kept; more only cost time
EQUAL_WIDTH = 0.1  # part of a cell's position that is its place between the bounds rather than its quantile
UNIFORM = 0.01  # part of p̃ that is spread over all cells: eigenfunctions stay bounded where no row was seen
# (A, q), from rough to smooth, and the largest extra noise of each in units of the loss. A careful regression tries three alone,
# the third where the line has little noise: else a line with its larger clip does better. Chosen on tables that docs/accuracy.md
# names.
LADDER = ((1.0, 0.25), (1.0, 0.5), (1.0, 1.0), (0.5, 1.5), (0.1, 1.5))
LIMITS = (0.01, 0.05, 0.05, 0.05, 0.05)
CAREFUL_LIMITS = (0.01, 0.03, 0.025)
QUIET = 0.035  # noise ratio of the line above which a careful regression does not try its third rung
SHORTER, SETTLED = 0.4, 10.0  # a flow shorter than the line's by this factor must still be this long in units of 1/h
HOPELESS = 0.2  # noise ratio of the line above which no curve is tried
MOST_STEPS = 1000
# A clip beyond which lies more than this part of the residuals' squares grows while predicted noise is this little, up to the
# largest clip of a line.
TAILS, LITTLE, LARGEST_CLIP = 0.15, 0.0022, 5.0


@dataclass(frozen=True, eq=False)
class Column:
    """One column's released shape: p̂ over 256 cells, the share of missing cells, eigenvalues w_k/w_1 and e_k at every place."""

    share: Vector
    missing: float
    eigenvalues: Vector
    functions: Vector

    @property
    def places(self) -> Vector:
        """Share of the rows at every one of the 257 places."""
        return np.append(self.share * (1.0 - self.missing), self.missing)

    def spectrum(self, scale: float, power: float) -> Vector:
        """λ_k, and at the end that of the indicator of a missing cell (0 where none is believed)."""
        return np.append(scale * self.eigenvalues**power, scale if self.missing > 0 else 0.0)


@dataclass(frozen=True, eq=False)
class Choice:
    """A rung of the ladder (None: the line), the settings of its descent and the noise that it is predicted to add."""

    rung: int | None
    noise: float
    line: float
    settings: Settings
    spectrum: Vector  # variance of every feature: linear columns, then those of shapes

    @property
    def kernel(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.rung is None else LADDER[self.rung]

    def tables(self, columns: Sequence[Column]) -> Vector:
        """√λ_k·e_k at every place of every column; none of the line."""
        return np.zeros((0, PLACES, 0)) if self.rung is None else tables_of(columns, self.kernel)


def denoised(counts: Vector, noise: float) -> Vector:
    """A histogram whose Haar coefficients are soft-thresholded at noise·√(2 ln 256), cut at 0 and normalised.

    >>> bool(abs(denoised(np.full(256, 3.0), 1.0)[0] - 1 / 256) < 1e-15)
    True
    """
    smooth, details = np.asarray(counts, dtype=np.float64), []
    while len(smooth) > 1:
        even, odd = smooth[0::2], smooth[1::2]
        detail = (even - odd) / math.sqrt(2.0)
        details.append(np.sign(detail) * np.maximum(np.abs(detail) - noise * math.sqrt(2.0 * math.log(CELLS)), 0.0))
        smooth = (even + odd) / math.sqrt(2.0)
    for detail in reversed(details):
        smooth = np.column_stack([smooth + detail, smooth - detail]).reshape(-1) / math.sqrt(2.0)
    kept = np.maximum(smooth, 0.0)
    total = float(kept.sum())
    return kept / total if total > 0 else np.full(CELLS, 1.0 / CELLS)


def columns_of(counts: Vector, noise: float, n: int) -> list[Column]:
    """The released histograms of p columns, `noise` the standard deviation of a count."""
    return list(_columns_of(np.asarray(counts, dtype=np.float64).tobytes(), noise, n))


@lru_cache(maxsize=8)
def _columns_of(counts: bytes, noise: float, n: int) -> tuple[Column, ...]:
    """Kept, because the fit, its shapes, their bands and the report ask for the same bases: an eigenproblem per column."""
    table = np.frombuffer(counts).reshape(-1, PLACES)
    sure = noise * (math.sqrt(2.0 * math.log(max(len(table), 2))) + 1.0)
    return tuple(_column(row, noise, sure, n) for row in table)


def _column(counts: Vector, noise: float, sure: float, n: int) -> Column:
    share = denoised(counts[:CELLS], noise)
    missing = min(float(counts[CELLS]) / n, 1.0) if counts[CELLS] > sure else 0.0
    position = (1.0 - EQUAL_WIDTH) * share + EQUAL_WIDTH / CELLS
    u = np.cumsum(position) - position / 2
    weight = (1.0 - UNIFORM) * share + UNIFORM / CELLS
    kernel = np.minimum.outer(u, u)
    mean = kernel @ weight
    kernel = kernel - mean[:, None] - mean[None, :] + weight @ mean
    root = np.sqrt(weight)
    values, vectors = np.linalg.eigh(root[:, None] * kernel * root[None, :])
    values, vectors = values[::-1][:FUNCTIONS], vectors[:, ::-1][:, :FUNCTIONS]
    vectors = vectors * np.where(vectors[0] < 0, -1.0, 1.0)  # the sign is a matter of the library: seeded noise should not be
    functions = np.zeros((PLACES, FUNCTIONS + 1))
    functions[:CELLS, :FUNCTIONS] = vectors / root[:, None]
    if missing > 0:  # its own place: an indicator with mean 0 and variance 1
        believed = min(max(missing, 0.01), 0.99)
        functions[:CELLS, FUNCTIONS] = -math.sqrt(believed / (1.0 - believed))
        functions[CELLS, FUNCTIONS] = math.sqrt((1.0 - believed) / believed)
    return Column(share, missing, np.maximum(values, 0.0) / values[0], functions)


def tables_of(columns: Sequence[Column], kernel: tuple[float, float]) -> Vector:
    """√λ_k·e_k at every place of every column."""
    return np.stack([column.functions * np.sqrt(column.spectrum(*kernel)) for column in columns])


def shape_values(w: Vector, d: int, columns: Sequence[int], centre: Vector, shares: Vector) -> tuple[Vector, Vector]:
    """(what every place of every shaped column adds, its linear part included and its mean taken out; those means).

    `w` is what an additive fit releases: d slopes, an intercept, 257 numbers per column. A missing cell has the linear part of
    the released centre; `shares` are those of the rows at the 257 places.
    """
    places = list(columns)
    values = np.asarray(w[d + 1 :], dtype=np.float64).reshape(len(places), PLACES).copy()
    values[:, :CELLS] += np.outer(w[places], MIDDLES)
    values[:, CELLS] += w[places] * centre[places]
    means = np.sum(values * shares.reshape(len(places), PLACES), axis=1)
    return values - means[:, None], means


@dataclass(frozen=True)
class Flow:
    """What the choice of smoothness asks of a descent.

    settings   (shape, S, clip factor, horizon) → clip, flow time, steps; None leaves a factor to the descent's own rule
    linear     variances of the linear coordinates, whose S is `size`
    mu         of a sum of rows clipped to length 1
    curvature  h, of the loss; `cost` of a unit of noise in a prediction, in units of the loss
    refined    whether the clip follows the noise of all coordinates (a regression); never below `least_clip`
    most       extra noise that no rung may pass, whatever the ladder allows
    hopeless   ν of a line beyond which no curve is tried
    limits     largest extra noise of each rung that may be taken
    careful    whether clip and flow time stay nearer to the line's
    nearer     whether the flow is as long as noise along a flat direction allows (probabilities of a careful fit)
    """

    settings: Callable[[Shape, float, float | None, float | None], Settings]
    shape: Shape
    size: float
    linear: Vector
    mu: float
    curvature: float
    cost: float
    refined: bool
    least_clip: float = 0.4
    most: float = math.inf
    hopeless: float = HOPELESS
    limits: tuple[float, ...] = LIMITS
    careful: bool = False
    nearer: bool = False

    def described(self, curves: Vector, clip: float | None = None, reach: float | None = None) -> Settings:
        size = math.sqrt(self.size**2 + float(curves.sum()))
        wide = Shape(self.shape.n, round(self.shape.d + float(curves.sum())))
        return {**self.settings(wide, size, clip, reach), "size_of_all": size}

    def noise(self, curves: Vector, found: Settings) -> float:
        """N: what the descent is predicted to add to a prediction."""
        spectrum = np.concatenate([self.linear, curves])
        spectrum = spectrum[spectrum > 0]
        settling = np.minimum(0.6 * spectrum * found["flow_time"] ** 2, 2.0 / (self.curvature**2 * spectrum))
        return float((found["clip_factor"] * found["size_of_all"] / (self.mu * self.shape.n)) ** 2 * settling.sum())

    def with_curves(self, curves: Vector) -> Settings:
        """In a regression c = clip(√(0.05/max(ν, ν_e)), 0.4, 5) with ν_e = √(N/2)/c, at the flow time that ν asks for; N/c²
        follows from τ."""
        found = self.described(curves)
        if not self.refined:
            return found
        nu, tau, clip = found["noise_ratio"], found["flow_time"], found["clip_factor"]
        effective = math.sqrt(self.noise(curves, found) / 2.0) / clip
        clip = max(min(max(math.sqrt(0.05 / max(nu, effective)), 0.4), 5.0), self.least_clip)
        return self.described(curves, clip, tau * clip * nu)

    def as_long(self, curves: Vector, found: Settings, line: Settings) -> Settings:
        """The flow time at which noise moves a flat direction as far as in the line: C·τ is the line's.

        The formulas hold the noise of all directions together, so that every curve shortens the flow of the line beside it, and
        slow directions of the line are lost with it. Curves are pulled to their lines afterwards; the line is not.
        """
        clip, theirs = (part["clip_factor"] * part["size_of_all"] for part in (found, line))
        tau = max(found["flow_time"], line["flow_time"] * theirs / clip)
        return self.described(curves, found["clip_factor"], tau * found["clip_factor"] * found["noise_ratio"])

    def raised(self, curves: Vector, found: Settings, line: Settings) -> Settings:
        """The clip and the flow time of a careful regression, once its curves were chosen.

        A clip below 1 bends what skewed targets hold, the line's part too: c becomes √c, up to the line's. Curves are pulled to
        their lines afterwards (`curve_shrinkage.py`), so the noise of a larger clip costs less than N says. Where columns go
        together a line needs its whole flow time: it is kept as far as C·τ, the noise of a flat direction, stays what it was.
        """
        if self.nearer:
            return self.as_long(curves, found, line)
        if not (self.careful and self.refined):
            return found
        clip = max(found["clip_factor"], min(math.sqrt(found["clip_factor"]), line["clip_factor"]))
        usual, tau = self.described(curves)["clip_factor"], found["flow_time"]
        tau = max(tau, min(line["flow_time"], tau * usual / clip))
        return self.described(curves, clip, tau * clip * found["noise_ratio"])


def linear_variances(shape: Shape, released: Mapping[str, object], scaled: Settings) -> Vector:
    """Variance of every scaled column, from the released squares."""
    squares = np.maximum(np.asarray(released["squares"], dtype=np.float64), 0.0)
    return np.asarray(squares * np.asarray(scaled["scale"]) ** 2 / shape.n)


def choose_smoothness(flow: Flow, columns: Sequence[Column]) -> Choice:
    """The first rung whose predicted noise exceeds the line's by little, with the settings of its descent."""
    line = flow.described(np.zeros(0))
    least = flow.noise(np.zeros(0), line)
    tried = zip(LADDER, flow.limits) if columns and line["noise_ratio"] <= flow.hopeless else ()
    for rung, ((scale, power), limit) in enumerate(tried):
        if rung == 2 and flow.careful and flow.refined and line["noise_ratio"] > QUIET:
            break
        curves = np.concatenate([column.spectrum(scale, power) for column in columns])
        found = flow.with_curves(curves)
        added, tau = flow.noise(curves, found), found["flow_time"]
        # A flow that noise cuts short adds little noise and learns little: the line must not be given up for that.
        long = tau >= SHORTER * line["flow_time"] or flow.curvature * tau >= SETTLED
        if long and flow.cost * (added - least) <= min(limit, flow.most):
            found = flow.raised(curves, found, line)
            return Choice(rung, flow.noise(curves, found), least, found, np.concatenate([flow.linear, curves]))
    return Choice(None, least, least, line, flow.linear)


def grown_clip(choice: Choice, beyond: float) -> float:
    """c of a regression with curves, once a share `beyond` of the residuals' squares is known to lie beyond it.

    N grows as c²: where it is little, a larger clip costs less than tails that are cut.

    >>> choice = Choice(0, 0.0011, 0.0, {"clip_factor": 2.0}, np.ones(1))
    >>> round(grown_clip(choice, 0.3), 3), grown_clip(choice, 0.1)
    (2.828, 2.0)
    """
    factor = float(choice.settings["clip_factor"])
    if beyond <= TAILS or choice.noise >= LITTLE:
        return factor
    return max(factor, min(factor * math.sqrt(LITTLE / max(choice.noise, 1e-12)), LARGEST_CLIP))


def in_words(choice: Choice) -> Settings:
    """The choice of smoothness, for the record."""
    found = {"predicted_noise": choice.noise, "predicted_noise_of_line": choice.line}
    if choice.rung is None:
        return {**found, "shapes": "the line: curves would add more noise than they are worth at this budget"}
    scale, power = choice.kernel
    return {**found, "shapes": "curves", "kernel_scale": scale, "kernel_power": power}
