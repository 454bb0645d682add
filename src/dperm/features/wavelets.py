"""Scattering features of images: averaged moduli of wavelet transforms, a public map that looks at each image alone.

    S₀ = x ⋆ φ,   S₁ = |x ⋆ ψ_λ| ⋆ φ,   S₂ = ||x ⋆ ψ_λ| ⋆ ψ_λ'| ⋆ φ,   each taken at every 2^J-th pixel

ψ are Morlet wavelets at J scales and L angles, φ is a Gaussian of width 2^J (Mallat 2012; Bruna and Mallat 2013). With J = 2 and
L = 8 an image has 1 + 16 + 64 = 81 channels, and one of 28 × 28 pixels has 81·7·7 = 3,969 features. Nothing in it is learned:
filters and channel weights are constants of this file, so a row of features says what its image says and nothing more.

The filters are those of Kymatio (`benchmarks/README.md` says how far the two agree).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

Array = np.ndarray
AT_A_TIME = 256  # images: their transforms stay near 50 MiB
COPIES = range(-2, 3)  # of a filter around the image, beyond which its Gaussian is 0


def scattering(images: ArrayLike, *, scales: int = 2, angles: int = 8, weighted: bool = True) -> NDArray[np.float32]:
    """(images, channels·height/2^J·width/2^J) in float32, channel after channel, for images of shape (n, height, width).

    Pixels may have any scale, because an `EmbeddingClassifier` brings rows to length 1. One that is no finite number counts as
    0. `weighted` multiplies every channel by its public constant (`channel_weights`).

    >>> scattering(np.ones((2, 28, 28))).shape
    (2, 3969)
    """
    images = np.asarray(images)
    if images.ndim != 3:
        raise ValueError(f"Expected images of shape (n, height, width), found {images.ndim} dimensions. Make colours grey first.")
    if not (isinstance(scales, int) and 1 <= scales <= 6 and isinstance(angles, int) and 1 <= angles <= 32):
        raise ValueError(f"Expected scales in 1 … 6 and angles in 1 … 32, found {scales!r} and {angles!r}.")
    step, (n, height, width) = 1 << scales, images.shape
    if min(height, width) < 2 * step or height % step or width % step:
        raise ValueError(f"Expected sides that are multiples of {step}, from {2 * step} on, found {height} × {width}. Pad them.")
    weights = channel_weights(scales, angles) if weighted else None
    found = np.empty((n, channels(scales, angles) * (height // step) * (width // step)), dtype=np.float32)
    for start in range(0, n, AT_A_TIME):
        part = np.asarray(images[start : start + AT_A_TIME], dtype=np.float32)
        values = _transformed(np.where(np.isfinite(part), part, np.float32(0)), scales, angles)
        if weights is not None:
            values *= weights[:, None, None]
        found[start : start + AT_A_TIME] = values.reshape(len(part), -1)
    return found


def channels(scales: int, angles: int) -> int:
    """1 + J·L + L²·J(J - 1)/2.

    >>> channels(2, 8)
    81
    """
    return 1 + scales * angles + angles**2 * scales * (scales - 1) // 2


def _transformed(images: Array, scales: int, angles: int) -> Array:
    """(n, channels, height/2^J, width/2^J)."""
    margin = 1 << scales
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin)), mode="reflect")
    wavelets, averages = filters(*padded.shape[1:], scales, angles)
    whole = fft.fft2(padded)

    def averaged(transform: Array, scale: int) -> Array:
        low = fft.ifft2(_coarser(transform * averages[scale], 1 << (scales - scale)))
        return np.real(low)[:, 1:-1, 1:-1]

    first, second = [averaged(whole, 0)], []
    for scale, angle in np.ndindex(scales, angles):
        moduli = fft.fft2(np.abs(fft.ifft2(_coarser(whole * wavelets[scale][angle][0], 1 << scale))))
        first.append(averaged(moduli, scale))
        for larger, other in np.ndindex(scales, angles):
            if larger > scale:
                again = _coarser(moduli * wavelets[larger][other][scale], 1 << (larger - scale))
                second.append(averaged(fft.fft2(np.abs(fft.ifft2(again))), larger))
    return np.stack(first + second, axis=1)


def _coarser(transform: Array, factor: int) -> Array:
    """The transform of every factor-th pixel: the mean of the aliases."""
    if factor == 1:
        return transform
    n, height, width = transform.shape
    return np.asarray(transform.reshape(n, factor, height // factor, factor, width // factor).mean(axis=(1, 3)))


@lru_cache(maxsize=8)
def filters(height: int, width: int, scales: int, angles: int) -> tuple[list[list[list[Array]]], list[Array]]:
    """(wavelets[scale][angle][resolution], averages[resolution]), as transforms, which are real."""
    wavelets = []
    for scale in range(scales):
        row = []
        for angle in range(angles):
            turn = (angles - angles // 2 - 1 - angle) * math.pi / angles
            psi = _morlet(height, width, 0.8 * 2**scale, turn, 0.75 * math.pi / 2**scale, 4.0 / angles)
            row.append([_periodic(psi, resolution) for resolution in range(max(scale, 1))])
        wavelets.append(row)
    phi = np.real(fft.fft2(_gabor(height, width, 0.8 * 2 ** (scales - 1), 0.0, 0.0, 1.0)))
    return wavelets, [_periodic(phi, resolution) for resolution in range(scales)]


def _morlet(height: int, width: int, spread: float, turn: float, frequency: float, slant: float) -> Array:
    """The transform of a Gabor wave less so much of its envelope that it has mean 0."""
    wave = _gabor(height, width, spread, turn, frequency, slant)
    envelope = _gabor(height, width, spread, turn, 0.0, slant)
    return np.real(fft.fft2(wave - envelope * (wave.sum() / envelope.sum())))


def _gabor(height: int, width: int, spread: float, turn: float, frequency: float, slant: float) -> Array:
    """exp(-‖D R x‖²/2s² + iξ⟨u, x⟩)·slant/2πs² on the torus, D = diag(1, slant)."""
    total = np.zeros((height, width), dtype=np.complex128)
    for up in COPIES:
        for left in COPIES:
            y, x = np.mgrid[up * height : (up + 1) * height, left * width : (left + 1) * width].astype(np.float64)
            along = y * math.cos(turn) + x * math.sin(turn)
            across = x * math.cos(turn) - y * math.sin(turn)
            total += np.exp(-(along**2 + (slant * across) ** 2) / (2 * spread**2) + 1j * frequency * along)
    return total * slant / (2 * math.pi * spread**2)


def _periodic(transform: Array, resolution: int) -> Array:
    """A filter for images at every 2^resolution-th pixel: frequencies that they cannot hold are cut, the rest summed."""
    factor = 1 << resolution
    if factor == 1:
        return transform.astype(np.float32)
    kept = transform.copy()
    for axis, side in enumerate(transform.shape):
        cut = [slice(None), slice(None)]
        cut[axis] = slice(side // (2 * factor), side - side // (2 * factor))
        kept[tuple(cut)] = 0.0
    height, width = transform.shape
    return np.asarray(kept.reshape(factor, height // factor, factor, width // factor).sum(axis=(0, 2)), dtype=np.float32)


def channel_weights(scales: int = 2, angles: int = 8) -> NDArray[np.float32]:
    """1/σ of every channel, σ its standard deviation on random images whose amplitudes fall as 1/frequency, as in photographs.

    Without them the smooth channel S₀ has most of a row's length and S₂ next to none. The numbers were read off 500 such images
    of variance 1 at J = 2, L = 8, so they are public: 0.7 for S₀; 0.03 and 0.045 for S₁, at the finest and at coarser scales; and
    for S₂ 0.0035 + 0.0027·cos⁴ of the angle between its two wavelets. `docs/theorems/heads.md` says what they are worth.

    >>> channel_weights().shape, round(float(channel_weights()[0]), 3)
    ((81,), 1.429)
    """
    first = [0.03 if scale == 0 else 0.045 for scale, _ in np.ndindex(scales, angles)]
    second = [
        0.0035 + 0.0027 * math.cos(math.pi * (angle - other) / angles) ** 4
        for scale, angle in np.ndindex(scales, angles)
        for larger, other in np.ndindex(scales, angles)
        if larger > scale
    ]
    return (1.0 / np.array([0.7, *first, *second])).astype(np.float32)
