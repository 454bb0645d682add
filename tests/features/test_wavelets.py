"""Scattering features: shape, energy, translations, constants, and that an image is read alone."""

from __future__ import annotations

import numpy as np
import pytest

from dperm.features import scattering
from dperm.features.wavelets import channel_weights, channels, filters


def strokes(n: int = 4, side: int = 32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    images = np.zeros((n, side, side), dtype=np.float32)
    for image in images:
        for _ in range(3):
            y, x = rng.integers(side // 4, side - side // 4 - 4, 2)
            image[y : y + 2, x : x + 5] = image[y : y + 5, x : x + 2] = rng.random()
    return images


def test_shape_and_type() -> None:
    found = scattering(np.zeros((3, 28, 28), dtype=np.uint8))
    assert found.shape == (3, 81 * 49) and found.dtype == np.float32 and not found.any()
    assert scattering(np.ones((2, 16, 24)), scales=1, angles=4).shape == (2, channels(1, 4) * 8 * 12)
    assert scattering(np.ones((2, 32, 32)), scales=3, angles=2).shape == (2, channels(3, 2) * 16)


def test_a_constant_image_has_its_mean_in_the_first_channel_and_nothing_elsewhere() -> None:
    found = scattering(np.full((1, 28, 28), 7.0), weighted=False).reshape(81, 49)
    assert np.allclose(found[0], 7.0, atol=1e-4) and np.abs(found[1:]).max() < 1e-4


def test_images_are_read_alone() -> None:
    """Whatever stands beside an image changes no bit; a pixel that is no number counts as 0."""
    images = strokes(5)
    whole = scattering(images)
    assert all(np.array_equal(whole[[i]], scattering(images[[i]])) for i in range(5))
    odd, cleared = images.copy(), images.copy()
    odd[0, 3, 3], odd[1, 0, 0], cleared[0, 3, 3], cleared[1, 0, 0] = np.nan, np.inf, 0.0, 0.0
    assert np.array_equal(scattering(odd), scattering(cleared))


def test_many_images_are_cut_into_parts_without_a_seam() -> None:
    images = strokes(300, 16)
    assert np.array_equal(scattering(images)[254:258], scattering(images[254:258]))


def test_a_translation_by_the_pooling_step_moves_the_grid_and_smaller_ones_change_little() -> None:
    images = strokes()
    base = scattering(images, weighted=False).reshape(4, 81, 8, 8)
    moved = scattering(np.roll(images, 4, axis=2), weighted=False).reshape(4, 81, 8, 8)
    inner = (slice(None), slice(None), slice(2, 6), slice(2, 6))
    assert np.allclose(moved[inner], np.roll(base, 1, axis=3)[inner], atol=2e-3 * np.abs(base).max())
    near = scattering(np.roll(images, 1, axis=2), weighted=False)
    pixels = np.linalg.norm(np.roll(images, 1, axis=2) - images) / np.linalg.norm(images)
    features = np.linalg.norm(near - base.reshape(4, -1)) / np.linalg.norm(base)
    assert features < 0.5 * pixels


def test_a_quarter_turn_permutes_the_angles() -> None:
    images = strokes()
    base = scattering(images, weighted=False).reshape(4, 81, 8, 8)
    turned = scattering(np.rot90(images, axes=(1, 2)), weighted=False).reshape(4, 81, 8, 8)
    sums, rotated = base[:, 1:17].sum(axis=(2, 3)).reshape(4, 2, 8), turned[:, 1:17].sum(axis=(2, 3)).reshape(4, 2, 8)
    assert np.allclose(np.roll(sums, 4, axis=2), rotated, rtol=0.02)


def test_filters_do_not_create_energy_and_wavelets_have_mean_zero() -> None:
    """Σ|ψ̂|²/2 + |φ̂|² ≤ 1 would make it contractive; these filters keep to 1 but for a few per cent (as published)."""
    wavelets, averages = filters(36, 36, 2, 8)
    energy = np.asarray(averages[0]) ** 2
    for row in wavelets:
        for angle in row:
            psi = np.asarray(angle[0])
            assert abs(psi[0, 0]) < 1e-5
            mirrored = np.roll(psi[::-1, ::-1], (1, 1), axis=(0, 1))
            energy = energy + (psi**2 + mirrored**2) / 2
    assert energy.max() <= 1.1 and averages[0][0, 0] == pytest.approx(1.0, abs=1e-5)
    images = strokes()
    assert np.sum(scattering(images, weighted=False) ** 2) * 16 <= 1.1 * np.sum(images**2)


def test_weights_are_constants_that_multiply_channels() -> None:
    images, weights = strokes(side=28), channel_weights()
    plain = scattering(images, weighted=False).reshape(4, 81, 49)
    assert np.allclose(scattering(images).reshape(4, 81, 49), plain * weights[:, None], rtol=1e-6)
    assert weights.shape == (81,) and (weights > 0).all()
    # A channel of parallel wavelets is stronger than one of crossed ones, so it is weighed less.
    assert weights[17] < weights[21]


def test_channels_have_about_the_same_spread_on_images_like_photographs() -> None:
    """Amplitudes that fall as 1/frequency, as the constants were read off: within a factor 2, where they were 200 apart."""
    rng, frequency = np.random.default_rng(1), np.fft.fftfreq(64)
    radius = np.hypot(frequency[:, None], frequency[None, :])
    radius[0, 0] = np.inf
    fields = np.fft.ifft2(np.fft.fft2(rng.standard_normal((60, 64, 64))) / radius).real
    images = (fields / fields.std())[:, :28, :28]
    spread = scattering(images).reshape(60, 81, 49).std(axis=0).mean(axis=1)
    plain = scattering(images, weighted=False).reshape(60, 81, 49).std(axis=0).mean(axis=1)
    assert spread.max() < 2 * spread.min() and plain.max() > 100 * plain.min()


@pytest.mark.parametrize(
    ("images", "options", "word"),
    [
        (np.zeros((2, 28)), {}, "dimensions"),
        (np.zeros((2, 30, 28)), {}, "multiples of 4"),
        (np.zeros((2, 4, 4)), {}, "from 8 on"),
        (np.zeros((2, 28, 28)), {"scales": 0}, "scales in"),
        (np.zeros((2, 28, 28)), {"angles": 0}, "scales in"),
    ],
)
def test_bad_images_are_refused_by_their_shape(images: np.ndarray, options: dict[str, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        scattering(images, **options)
