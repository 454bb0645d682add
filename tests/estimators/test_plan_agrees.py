"""`plan` and `fit` never disagree: method, events and warnings, over random declarations; also where they refuse."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pyarrow as pa
import pytest

import dperm

N = 120
CLASSIFIERS = ["LogisticRegression", "LinearSVC", "GAMClassifier", "MLPClassifier"]
REGRESSORS = ["LinearRegression", "Ridge", "HuberRegressor", "QuantileRegressor", "PoissonRegressor", "Lasso", "GAMRegressor"]
METHODS = ["auto", "auto", "auto", "gradient", "scaled-gradient", "objective", "output", "statistics", "newton"]
METHODS += ["scaled-objective"]
SCHEMA = {
    "columns": {
        "a": {"type": "numeric", "low": -1, "high": 1},
        "b": {"type": "categorical", "levels": ["x", "y", "z"]},
        "c": {"type": "boolean"},
    }
}


def declarations(seed):
    """(estimator, X, y, keyword arguments of fit, d for arrays)."""
    dice = random.Random(seed)
    name = dice.choice([*CLASSIFIERS, *REGRESSORS, "MeanEstimator", "MedianEstimator"])
    relation = dice.choice(["default", "replace-one", "zero-out", "add-remove"])
    options = {
        "epsilon": dice.choice([0.3, 1.0, 30.0]),
        "relation": getattr(dperm, name)().relation if relation == "default" else relation,
        "noise": dice.choice(["secure", "exact"]),
    }
    if options["relation"] == "add-remove":
        options["nominal_n"] = dice.choice([100, 200])
    given: dict = {}
    if dice.random() < 0.5 and options["relation"] != "add-remove":
        options["max_rows_per_person"] = dice.choice([1, 3])
        given["groups"] = np.arange(N) % 50
    rng = np.random.default_rng(0)
    if name in ("MeanEstimator", "MedianEstimator"):
        d = dice.choice([1, 3])
        options["delta"] = dice.choice([None, 0.0]) if name == "MeanEstimator" else 0.0
        return getattr(dperm, name)(**options, bounds=(-1, 1)), rng.uniform(-1, 1, (N, d)), None, given, d
    options |= {"delta": dice.choice([None, None, 0.0]), "method": dice.choice(METHODS)}
    if name.startswith("GAM"):  # one method; the others are refused by their name alone
        options["method"] = "auto"
    options["radius"] = dice.choice([None, None, 2.0])
    if name not in ("LinearSVC", "MLPClassifier", "GAMClassifier"):
        options["intervals"] = random.Random(-1 - seed).random() < 0.2
    if name in CLASSIFIERS:
        classes = dice.choice([["no", "yes"], ["no", "yes", "perhaps"]])
        y = np.array(classes)[rng.integers(0, len(classes), N)]
        options["class_weight"] = dice.choice([None, None, {"no": 1.0, "yes": 4.0}])
        target = {"column": "t", "type": "classes", "classes": classes}
    else:
        y = rng.integers(0, 3, N).astype(float)
        target = {"column": "t", "type": "numeric", "low": 0, "high": 3}
    if dice.random() < 0.5:
        options["max_weight"] = 2.0
        given["sample_weight"] = rng.uniform(0, 2, N)
    if name == "PoissonRegressor" and dice.random() < 0.5:
        options["max_exposure"] = 3.0
        given["exposure"] = rng.uniform(0, 3, N)
    if dice.random() < 0.5:
        table = pa.table({"a": rng.uniform(-1, 1, N), "b": ["x", "y", "z"] * (N // 3), "c": [True, False] * (N // 2), "t": y})
        return getattr(dperm, name)(**options, schema={**SCHEMA, "target": target}), table, None, given, None
    options |= {"bounds": (-1, 1), **({"classes": classes} if name in CLASSIFIERS else {"y_bounds": (0, 3)})}
    return getattr(dperm, name)(**options), rng.uniform(-1, 1, (N, 2)), y, given, 2


def said(action):
    """What came of it: a plan with its loud warnings, or the words of a refusal."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            plan = action()
        except ValueError as error:
            return f"{type(error).__name__}: {error}", ()
    loud = [str(one.message) for one in heard]
    return (plan.mechanism, dict(plan.options), plan.stages, plan.warnings, plan.target, plan.shape), tuple(loud)


@pytest.mark.parametrize("part", range(10))
def test_plan_and_fit_never_disagree(part):
    """`model.plan`, which the command and the ledger's check use, against the plan of the fit itself."""
    compared = [agree(seed) for seed in range(48 * part, 48 * part + 48)]
    assert sum(compared) >= 10  # most of the others are refused, by both in the same words


def agree(seed):
    """Whether there was a plan to compare."""
    model, X, y, given, d = declarations(seed)
    planned, _ = said(lambda: model.plan(N, d))
    fitted, loud = said(lambda: model.fit(X, y, **given).plan_ if y is not None else model.fit(X, **given).plan_)
    assert planned == fitted, f"seed {seed}: {model}"
    if not isinstance(fitted, str):
        assert [text for text in fitted[3] if text.startswith("LITTLE")] == [text for text in loud if text.startswith("LITTLE")]
    return not isinstance(fitted, str)


@pytest.mark.parametrize("name", ["LogisticRegression", *REGRESSORS])
@pytest.mark.parametrize("given", [{}, {"exposure": 3.0}, {"sample_weight": 2.0}, {"missing": True}])
def test_plan_and_fit_agree_about_intervals(name, given):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (N, 2)), rng.integers(0, 2, N)
    options = {"bounds": (-1, 1), **({"classes": [0, 1]} if name in CLASSIFIERS else {"y_bounds": (0, 3)}), "intervals": True}
    data = {}
    if "sample_weight" in given:
        options["max_weight"], data["sample_weight"] = given["sample_weight"], np.ones(N)
    if "exposure" in given and name == "PoissonRegressor":
        options["max_exposure"], data["exposure"] = given["exposure"], np.ones(N)
    if "missing" in given:
        X[::5, 0] = np.nan
    model = getattr(dperm, name)(epsilon=1.0, **options)
    planned, fitted = said(lambda: model.plan(N, 2))[0], said(lambda: model.fit(X, y, **data).plan_)[0]
    assert planned == fitted
    refused = name in ("Lasso", "GAMRegressor")
    assert isinstance(planned, str) if refused else planned[0] == "scaled-inference"


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"noise": "exact"}, "scaled-gradient"), ({"class_weight": {0: 1.0, 1: 5.0}}, "scaled-objective")],
)
def test_the_cases_that_disagreed(options, expected):
    """Under noise="exact" the plan named another method; with class weights it stated other events than the fit booked."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (4000, 2)), rng.integers(0, 2, 4000)
    model = dperm.LogisticRegression(epsilon=5.0, bounds=(-1, 1), classes=[0, 1], **options)
    planned = model.plan(4000, 2)
    fitted = model.fit(X, y).plan_
    assert planned == fitted and planned.mechanism == expected


def test_the_exact_sampler_is_refused_before_the_debit(tmp_path):
    """A network draws its first weights: it used to fail after a release had been drawn and the ledger debited."""
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=3, delta=1e-5, relation="zero-out")
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    for model in (
        dperm.MLPClassifier(1.0, bounds=(-1, 1), classes=[0, 1], noise="exact", ledger=ledger),
        dperm.LogisticRegression(
            1.0, bounds=(-1, 1), classes=[0, 1], noise="exact", ledger=ledger, method="output", radius=1.0, relation="zero-out"
        ),
    ):
        with pytest.raises(ValueError, match="Gaussian noise only under noise='exact'"):
            model.fit(X, np.arange(200) % 2)
    assert ledger.account().fits == 0


def test_fit_says_in_the_words_of_the_plan_that_little_can_be_learnt():
    X, y = np.random.default_rng(0).uniform(-1, 1, (100, 8)), np.arange(100) % 2
    model = dperm.LogisticRegression(epsilon=0.1, bounds=(-1, 1), classes=[0, 1])
    (words,) = model.plan(100, 8).warnings
    assert words.startswith("LITTLE CAN BE LEARNT")
    with pytest.warns(dperm.PrivacyWarning) as heard:
        model.fit(X, y)
    assert [str(one.message) for one in heard] == [words] and heard[0].filename == __file__
