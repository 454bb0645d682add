"""Noise is never used twice: not after a fork, a copy, a pickle, in threads, or from a restored snapshot.

A repeat is looked for bit by bit, over whole vectors. A coordinate of honest noise lies on a grid with some 2²¹ likely points, so
two vectors of three or four agree by chance with probability below 1e-17, and two fitted pairs with probability below 1e-10.
"""

import copy
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

import dperm
from dperm.mechanisms import Gradient
from dperm.release.noise import ExactNoise, SecureNoise, SeededNoise, gamma_norm_vector, release

X = np.linspace(-1, 1, 30).reshape(-1, 1)
Y = (X[:, 0] > 0).astype(int)


def estimator(**options):
    return dperm.LogisticRegression(epsilon=1.0, delta=1e-3, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=3), **options)


def answer(model):
    return tuple(np.r_[model.coef_.ravel(), model.intercept_.ravel()])


def secure_draws(source):
    """One draw of every kind that a source hands out."""
    if isinstance(source, ExactNoise):
        return (tuple(release(np.zeros(4), sensitivity=1.0, mu=1.0, noise=source)),)
    drawn = source.normal(1.0, 4), source.generator().random(4), gamma_norm_vector(4, 1.0, source)
    return tuple(tuple(part) for part in drawn)


def distinct(draws):
    """No vector occurs twice; a draw is one vector or a tuple of them."""
    vectors = [vector for draw in draws for vector in (draw if isinstance(draw[0], tuple) else (draw,))]
    return len(set(vectors)) == len(vectors)


# Python 3.12 warns about forking beside threads; the libraries' idle threads hold no lock that these children take.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
SOURCES = pytest.mark.parametrize("source", [SecureNoise(), ExactNoise()], ids=["secure", "exact"])


@SOURCES
def test_copies_and_pickles_of_a_source_draw_afresh(source):
    snapshot = pickle.dumps(source)
    draws = [secure_draws(source)]
    for made in (copy.copy(source), copy.deepcopy(source), pickle.loads(snapshot), pickle.loads(snapshot)):
        draws += [secure_draws(made), secure_draws(made)]
    assert distinct(draws)


@SOURCES
def test_restoring_the_whole_state_of_a_source_does_not_rewind_it(source):
    before = copy.deepcopy(vars(source))
    first = secure_draws(source)
    vars(source).clear()
    vars(source).update(before)
    assert distinct([first, secure_draws(source)])


@SOURCES
def test_forks_of_a_source_draw_afresh(source):
    secure_draws(source)
    draws = in_forks(lambda: secure_draws(source), 3)
    assert distinct([*draws, secure_draws(source)])


def in_forks(work, count):
    """Run `work` in forked children; their answers come back through pipes."""
    context = multiprocessing.get_context("fork")
    answers, children = [], []
    for _ in range(count):
        reader, writer = context.Pipe(duplex=False)
        child = context.Process(target=lambda end=writer: end.send(work()))
        child.start()
        children.append((reader, child))
    for reader, child in children:
        answers.append(reader.recv())
        child.join(30)
        assert child.exitcode == 0
    return answers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_fits_with_noise_of_its_own():
    model = estimator().fit(X, Y)
    answers = in_forks(lambda: answer(model.fit(X, Y)), 2)
    assert distinct([*answers, answer(model), answer(model.fit(X, Y))])


def test_copies_and_pickles_of_an_estimator_fit_with_noise_of_their_own():
    model = estimator().fit(X, Y)
    snapshot = pickle.dumps(model)
    made = [copy.copy(model), copy.deepcopy(model), pickle.loads(snapshot), pickle.loads(snapshot)]
    assert distinct([answer(model), *(answer(other.fit(X, Y)) for other in made)])


def test_threads_fit_with_noise_of_their_own():
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(answer(estimator().fit(X, Y)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6 and distinct(answers)


def test_global_seeds_do_not_reach_secure_noise():
    answers = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        answers.append(answer(estimator().fit(X, Y)))
    assert distinct(answers)


def test_seeded_noise_repeats_and_says_so():
    """The contrast: a seed repeats by design, so its certificate must say that it is not private and fail verification."""
    one, two = estimator(random_state=3).fit(X, Y), estimator(random_state=3).fit(X, Y)
    assert answer(one) == answer(two)
    assert "NOT PRIVATE" in one.certificate_.statement and not one.certificate_.verify()
    assert SeededNoise(3).normal(1.0, 2).tolist() == SeededNoise(3).normal(1.0, 2).tolist()


def test_steps_of_one_fit_do_not_share_noise():
    """Two noisy sums of the same value inside one fit differ: their difference must not be the value's."""
    noise = SecureNoise()
    assert distinct([tuple(release(np.zeros(3), sensitivity=1.0, mu=1.0, noise=noise)) for _ in range(50)])
