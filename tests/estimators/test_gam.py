"""GAMClassifier and GAMRegressor: curves that a line cannot draw, shapes, explanations, saved models, the command."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.mechanisms import Gradient, UnmetNeeds
from dperm.privacy import RELATIONS
from dperm.words.notices import PrivacyWarning

N = 8000


def numbers(missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two columns that matter by a curve, one that does not; a missing cell of the first column raises the target."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 5, (N, 3))
    score = 2 * np.cos(X[:, 0]) + np.abs(X[:, 1] - 1)
    gone = generator.uniform(size=N) < missing
    score = np.where(gone, 4.0, score)
    X[gone, 0] = np.nan
    return X, score


def classifier(**options: Any) -> dperm.GAMClassifier:
    return dperm.GAMClassifier(**({"epsilon": 2.0, "bounds": (-3, 5), "classes": [0, 1], "random_state": 0} | options))


def regressor(**options: Any) -> dperm.GAMRegressor:
    return dperm.GAMRegressor(**({"epsilon": 2.0, "bounds": (-3, 5), "y_bounds": (-3, 7), "random_state": 0} | options))


def counter(**options: Any) -> dperm.GAMRegressor:
    return regressor(**({"loss": "poisson", "y_bounds": (0, 60)} | options))


def counted(missing: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of `numbers`, counts whose logarithm follows the score, and exposures."""
    X, score = numbers(missing)
    generator = np.random.default_rng(1)
    exposure = generator.choice([0.5, 2.0], N)
    return X, generator.poisson(1.5 * exposure * np.exp(score / 2)), exposure


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_classifier_learns_curves_that_a_line_cannot(loss: str) -> None:
    X, score = numbers()
    y = (score > 2).astype(int)
    line = (dperm.LogisticRegression if loss == "logistic" else dperm.LinearSVC)(
        2.0, bounds=(-3, 5), classes=[0, 1], random_state=0
    ).fit(X, y)
    curves = classifier(loss=loss).fit(X, y)
    assert curves.curves_ == "curves" and curves.score(X, y) > 0.93 > 0.8 > line.score(X, y)
    if loss == "logistic":
        p = curves.predict_proba(X)
        assert np.array_equal(p[:, 1] > 0.5, curves.predict(X) == 1)
        np.testing.assert_allclose(np.exp(curves.predict_log_proba(X)), p)
    else:
        with pytest.raises(ValueError, match="loss='logistic' for probabilities"):
            curves.predict_proba(X)


def three(missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    X, score = numbers(missing)
    return X, np.array(["low", "middle", "high"])[np.digitize(score, [0.5, 2.5])]


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_several_classes_have_a_curve_each(loss: str, tmp_path: Any) -> None:
    """Better than the line, probabilities that agree, contributions per class that add up, edits of one class, saved models."""
    X, y = three(0.1)
    classes, options = ["low", "middle", "high"], {"epsilon": 4.0, "relation": "zero-out"}
    line = dperm.LogisticRegression(bounds=(-3, 5), classes=classes, random_state=0, **options).fit(X, y)
    model = classifier(loss=loss, classes=classes, **options).fit(X, y)
    assert model.curves_ == "curves" and model.score(X, y) > 0.8 > 0.15 + line.score(X, y)
    shape = model.shapes_["x0"]
    assert shape.value.shape == (3, 256) and shape.missing.shape == (3,) and shape.classes == tuple(classes)
    everywhere = np.column_stack([shape.value, shape.missing])
    np.testing.assert_allclose(everywhere @ shape.marginal, 0.0, atol=1e-10)
    np.testing.assert_allclose(sum(model.explain(X[:99]).values()), model.decision_function(X[:99]), atol=1e-9)
    if loss == "logistic":
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    rising = model.monotone("x1", label="high")
    assert np.all(np.diff(rising.shapes_["x1"].value[2]) >= -1e-12)
    np.testing.assert_array_equal(rising.shapes_["x1"].value[:2], model.shapes_["x1"].value[:2])
    for wrong in (None, "none"):
        with pytest.raises(ValueError, match="label= among the classes"):
            model.monotone("x1", label=wrong)
    for one in (model, rising):
        again = dperm.load(one.save(tmp_path / "classes.json"))
        np.testing.assert_array_equal(again.decision_function(X[:99]), one.decision_function(X[:99]))
        assert again.edits_ == one.edits_ and again.certificate_.verify(allow_seeded=True).ok
    assert [text.get_text() for text in model.plot().axes[0].get_legend().get_texts()] == classes


@pytest.mark.parametrize("relation", RELATIONS)
def test_several_classes_under_every_relation_with_weights_and_persons(relation: str) -> None:
    X, y = three(0.1)
    nominal = N if relation == "add-remove" else None
    options: dict[str, Any] = {"relation": relation, "nominal_n": nominal, "classes": ["low", "middle", "high"], "epsilon": 8.0}
    for more, given in (
        ({"max_weight": 2.0, "class_weight": {"low": 2.0}}, {"sample_weight": np.linspace(0, 2, N)}),
        ({"max_rows_per_person": 2, "bounds": "private"}, {"groups": np.arange(N) // 2}),
    ):
        model = classifier(**options, **more).fit(X, y, **given)
        verdict = model.certificate_.verify(allow_seeded=True)
        assert verdict.ok, verdict.reasons
        assert model.score(X, y) > 0.5
    with pytest.raises(UnmetNeeds, match="Gaussian"):
        classifier(**options, delta=0).fit(X, y)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_regression_learns_curves_that_a_line_cannot(loss: str) -> None:
    X, score = numbers()
    line = dperm.LinearRegression(2.0, bounds=(-3, 5), y_bounds=(-3, 7), random_state=0).fit(X, score)
    assert regressor(loss=loss).fit(X, score).score(X, score) > 0.95 > 0.3 > line.score(X, score)


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_have_curves_exposures_and_a_balanced_total(relation: str, tmp_path: Any) -> None:
    """D² well above the line's, predicted total within 2 %, explanations that are log rates, records that verify and load."""
    X, y, exposure = counted()
    nominal = N if relation == "add-remove" else None
    options: dict[str, Any] = {"epsilon": 8.0, "relation": relation, "nominal_n": nominal, "max_exposure": 2.0}
    line = dperm.PoissonRegressor(bounds=(-3, 5), y_bounds=60, random_state=0, **options).fit(X, y, exposure=exposure)
    model = counter(**options).fit(X, y, exposure=exposure)
    assert model.curves_ == "curves" and model.score(X, y, exposure=exposure) > 0.2 + line.score(X, y, exposure=exposure)
    predicted = model.predict(X, exposure)
    assert predicted.sum() / np.minimum(y, 60).sum() == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(np.minimum(exposure * np.exp(np.sum(list(model.explain(X).values()), axis=0)), 60), predicted)
    assert model.certificate_.verify(allow_seeded=True).ok
    again = dperm.load(model.save(tmp_path / "counts.json"))
    np.testing.assert_array_equal(again.predict(X, exposure), predicted)
    np.testing.assert_array_equal(again.shapes_["x0"].value, model.shapes_["x0"].value)
    with pytest.raises(ValueError, match="exposure"):
        model.predict(X, -exposure)


def test_counts_take_weights_persons_missing_cells_and_edits() -> None:
    X, y, _ = counted(0.1)
    model = counter(epsilon=30.0, relation="zero-out", max_weight=2.0, max_rows_per_person=2).fit(
        X, y, sample_weight=np.linspace(0, 2, N), groups=np.arange(N) // 2
    )
    assert model.certificate_.verify(allow_seeded=True).ok and model.score(X, y) > 0.3
    rising = model.monotone("x1")
    assert np.all(np.diff(rising.shapes_["x1"].value) >= -1e-12) and rising.predict(X).min() > 0
    gone = np.isnan(X[:, 0])
    assert model.predict(X[gone]).mean() > 1.5 * model.predict(X[~gone]).mean()  # a missing cell has its own place
    scores = dperm.evaluate(model, X, y, epsilon=2.0, random_state=1, groups=np.arange(N) // 2, max_rows_per_person=2)
    assert 0.5 < scores.metrics["balance"]["value"] < 2.0


def test_shapes_follow_the_truth_and_are_centred_under_the_released_marginals() -> None:
    X, score = numbers()
    model = regressor().fit(X, score)
    assert list(model.shapes_) == ["x0", "x1", "x2"]
    for name, truth in (("x0", lambda x: 2 * np.cos(x)), ("x1", lambda x: np.abs(x - 1)), ("x2", np.zeros_like)):
        shape = model.shapes_[name]
        assert shape.grid[0] == pytest.approx(-3 + 4 / 256) and shape.grid[-1] == pytest.approx(5 - 4 / 256)
        everywhere = np.append(shape.value, shape.missing)
        assert shape.marginal @ everywhere == pytest.approx(0.0, abs=1e-12) and shape.marginal.sum() == pytest.approx(1.0)
        expected = truth(shape.grid)
        assert np.sqrt(np.mean((shape.value - expected + expected.mean()) ** 2)) < 0.25


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
@pytest.mark.parametrize("form", ["array", "table"])
def test_explanations_add_up_to_the_margin(kind: str, form: str) -> None:
    X, score = numbers(0.2)
    given = pd.DataFrame(X, columns=["a", "b", "c"]) if form == "table" else X
    model: Any = classifier().fit(given, (score > 2).astype(int)) if kind == "classifier" else regressor().fit(given, score)
    rows = given[:200]
    parts = model.explain(rows)
    assert list(parts) == [*model.get_feature_names_out(), "intercept"]
    total = np.sum(list(parts.values()), axis=0)
    if kind == "classifier":
        np.testing.assert_allclose(total, model.decision_function(rows), atol=1e-9)
    else:
        np.testing.assert_allclose(np.clip(total, -3, 7), model.predict(rows), atol=1e-9)
    first = parts[model.get_feature_names_out()[0]]
    shape = next(iter(model.shapes_.values()))
    gone = np.isnan(X[:200, 0])
    np.testing.assert_allclose(first[gone], shape.missing, atol=1e-9)
    cell = np.clip(((X[:200, 0][~gone] + 3) / 8 * 256).astype(int), 0, 255)
    np.testing.assert_allclose(first[~gone], shape.value[cell], atol=0.05)  # the slope inside a cell is all that differs


def test_missing_cells_have_their_own_place() -> None:
    X, score = numbers(0.2)
    model = regressor().fit(X, score)
    gone = np.isnan(X[:, 0])
    assert abs(np.mean(model.predict(X[gone]) - score[gone])) < 0.4
    assert model.shapes_["x0"].missing > model.shapes_["x0"].value.max() - 1.0
    whole = regressor(missing="middle").fit(X, score)  # declared to be the middle: no place of its own
    assert whole.shapes_["x0"].missing is None and whole.certificate_.verify(allow_seeded=True).ok


def test_too_little_budget_gives_the_line_and_says_so() -> None:
    X, score = numbers()
    with pytest.warns(dperm.PrivacyWarning, match="LITTLE CAN BE LEARNT"):
        model = regressor(epsilon=0.001).fit(X, score)
    assert model.curves_.startswith("the line") and not model.w_[4:].any()
    assert model.certificate_.record["decided"]["shapes"] == model.curves_
    shape = model.shapes_["x1"]
    np.testing.assert_allclose(np.diff(shape.value), np.diff(shape.value)[0], atol=1e-9)


@pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")
@pytest.mark.parametrize("kind", ["logistic", "hinge", "three", "squared", "huber", "poisson"])
def test_where_curves_cannot_be_learnt_every_model_is_the_line(kind: str, tmp_path: Any) -> None:
    """All places add nothing, shapes are straight, and the record, `curves_` and the report say so."""
    X, score = numbers()
    if kind in ("logistic", "hinge"):
        model: Any = classifier(epsilon=0.002, loss=kind).fit(X, (score > 2).astype(int))
    elif kind == "three":
        model = classifier(epsilon=0.002, classes=["low", "middle", "high"]).fit(X, three()[1])
    elif kind == "poisson":
        model = counter(epsilon=0.002).fit(X, counted()[1])
    else:
        model = regressor(epsilon=0.002, loss=kind).fit(X, score)
    assert model.curves_.startswith("the line: curves would add more noise") and not model.w_[..., 4:].any()
    assert model.certificate_.record["decided"]["shapes"] == model.curves_
    assert model.curves_ in model.report(tmp_path / "line.html").read_text()
    slopes = np.diff(np.atleast_2d(model.shapes_["x1"].value), axis=1)
    np.testing.assert_allclose(slopes, slopes[:, :1] + np.zeros_like(slopes), rtol=1e-6)
    verdict = model.certificate_.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons


@pytest.mark.parametrize("relation", RELATIONS)
def test_marginals_are_kept_shown_and_of_use(relation: str, tmp_path: Any) -> None:
    """Released counts with their noise, also of a loaded model; quantiles close to those of the rows; the picture draws them."""
    X, score = numbers(0.2)
    X[:, 1] = 8 * ((X[:, 1] + 3) / 8) ** 3 - 3
    model = regressor(epsilon=4.0, relation=relation, nominal_n=N if relation == "add-remove" else None).fit(X, score)
    for one in (model, dperm.load(model.save(tmp_path / "model.json"))):
        found = one.marginals_
        assert list(found) == ["x0", "x1", "x2"] and found["x0"].edges[0] == -3.0 and found["x0"].edges[-1] == 5.0
        exact = np.histogram(X[:, 1], found["x1"].edges)[0]
        assert 0.6 < np.std(found["x1"].count - exact) / found["x1"].noise < 1.4
        assert found["x0"].missing == pytest.approx(np.isnan(X[:, 0]).sum(), abs=5 * found["x0"].noise)
        assert found["x1"].quantile(0.5) == pytest.approx(np.median(X[:, 1]), abs=0.3)
        np.testing.assert_allclose(found["x1"].share * (1 - one.shapes_["x1"].marginal[256]), one.shapes_["x1"].marginal[:256])
    with pytest.raises(ValueError, match="between 0 and 1"):
        found["x1"].quantile(2.0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_persons_weights_and_private_bounds_verify(relation: str) -> None:
    X, score = numbers(0.1)
    nominal = N if relation == "add-remove" else None
    for options, given in (
        ({}, {}),
        ({"max_rows_per_person": 2}, {"groups": np.arange(N) // 2}),
        ({"max_weight": 2.0}, {"sample_weight": np.linspace(0, 2, N)}),
        ({"bounds": "private"}, {}),
    ):
        model = regressor(relation=relation, nominal_n=nominal, **options).fit(X, score, **given)
        verdict = model.certificate_.verify(allow_seeded=True)
        assert verdict.ok, verdict.reasons
        assert model.score(X, score) > 0.6


def test_one_hot_boolean_sparse_and_free_columns_stay_linear() -> None:
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.uniform(0, 1, N), *np.eye(3)[generator.integers(0, 3, N)].T, generator.random(N) < 0.5])
    y = X[:, 0] ** 2 + X[:, 1] - X[:, 4]
    model = dperm.GAMRegressor(
        2.0, bounds=(0, 1), categorical=[[1, 2, 3]], boolean=[4], y_bounds=(-2, 3), random_state=0
    ).fit(X, y)
    assert list(model.shapes_) == ["x0"] and model.score(X, y) > 0.95
    free = dperm.GAMRegressor(2.0, x_norm=2.0, y_bounds=(-2, 3), random_state=0).fit(X, y)
    assert not free.shapes_ and free.curves_.startswith("the line") and free.certificate_.verify(allow_seeded=True).ok
    stored = dperm.GAMRegressor(2.0, bounds=(0, 1), y_bounds=(-2, 3), random_state=0).fit(sparse.csr_array(X), y)
    assert not stored.shapes_ and len(stored.predict(sparse.csr_array(X[:5]))) == 5
    with pytest.raises(ValueError, match="at least one column with a shape"):
        free.plot()


def test_saved_models_predict_draw_and_explain_as_before(tmp_path: Any) -> None:
    X, score = numbers(0.2)
    for model in (classifier(loss="hinge").fit(X, (score > 2).astype(int)), regressor().fit(X, score)):
        again = dperm.load(model.save(tmp_path / f"{type(model).__name__}.json"))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.loss == model.loss and again.curves_ == model.curves_ and again.certificate_.verify(allow_seeded=True).ok
        for name, shape in model.shapes_.items():
            np.testing.assert_array_equal(again.shapes_[name].value, shape.value)
        parts, others = model.explain(X[:5]), again.explain(X[:5])
        assert all(np.array_equal(parts[name], others[name]) for name in parts)


@pytest.mark.parametrize(
    "damage",
    [
        lambda shapes: shapes.update(columns=[0, 0, 2]),
        lambda shapes: shapes.update(columns=[0, 1]),
        lambda shapes: shapes.update(columns=[True, 1, 2]),
        lambda shapes: shapes.update(shares=[[0.0] * 257]),
        lambda shapes: shapes.update(centre=[0.0]),
    ],
)
def test_damaged_shapes_are_refused(damage: Any, tmp_path: Any) -> None:
    X, score = numbers()
    file = regressor().fit(X, score).save(tmp_path / "model.json")
    record = json.loads(file.read_text())
    damage(record["extra"]["shapes"])
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="damaged"):
        dperm.load(file)


def test_the_plot_has_a_panel_per_shape() -> None:
    X, score = numbers(0.2)
    model = regressor().fit(X, score)
    figure = model.plot()
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["x0", "x1", "x2"]
    lines = figure.axes[0].get_lines()
    np.testing.assert_array_equal(lines[0].get_ydata(), model.shapes_["x0"].value)
    assert figure.axes[0].get_ylabel() == "adds to the target"
    bars = [axes for axes in figure.axes if axes.patches]  # of the histograms, behind the curves
    low, high = figure.axes[0].get_ylim()
    for axes in bars:  # they end below the lowest curve, on whichever scale
        top = max(bar.get_height() for bar in axes.patches) / axes.get_ylim()[1]
        assert len(axes.patches) == 32 and low + top * (high - low) < min(shape.value.min() for shape in model.shapes_.values())
    with pytest.raises(ValueError, match=r"Use plot\(\) for its curves"):
        model.summary()
    for one in (["x1"], "x1"):
        assert [axes.get_title() for axes in model.plot(one).axes if axes.get_title()] == ["x1"]
    with pytest.raises(ValueError, match="Expected columns with a shape"):
        model.plot(["x9"])


def test_where_no_histogram_was_paid_for_none_is_drawn_or_spoken_of(tmp_path: Any) -> None:
    """A line for public reasons: the even shares that stand for an unpaid marginal must not look like a released one."""
    X, score = numbers()
    with pytest.warns(PrivacyWarning, match="LITTLE CAN BE LEARNT"):
        line = regressor(epsilon=0.01).fit(X[:500], score[:500])
    assert dict(line.marginals_) == {} and line.curves_.startswith("the line")
    for one in (line, dperm.load(line.save(tmp_path / "model.json"))):
        assert not any(axes.patches for axes in one.plot().axes)
    page = line.report(tmp_path / "line.md").read_text()
    assert "no histograms were paid for" in page and "released histogram" not in page
    page = regressor().fit(X, score).report(tmp_path / "curves.md").read_text()
    assert "under the released histogram" in page and "no histograms" not in page and "No bands" not in page
    X, y, exposure = counted()
    page = counter(max_exposure=2).fit(X, y, exposure=exposure).report(tmp_path / "counts.md").read_text()
    assert "No bands" in page


def test_large_numbers_are_written_out_and_shapes_and_marginals_are_one_line_each(tmp_path: Any) -> None:
    X, score = numbers()
    model = regressor(bounds=(-3e6, 5e6), y_bounds=(-3e6, 7e6)).fit(X * 1e6, score * 1e6)
    figure = model.plot()
    figure.canvas.draw()
    axes = figure.axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        texts = [text.get_text() for text in axis.get_ticklabels()]
        assert axis.get_offset_text().get_text() == "" and any(text.endswith("00,000") for text in texts), texts
    page = model.report(tmp_path / "large.html").read_text()
    assert "to +1," in page and "e+0" not in page.partition("Certificate")[0] and "\N{MINUS SIGN}" not in page
    assert len(repr(model.marginals_["x0"])) < 130 and "median" in repr(model.marginals_["x0"])
    assert len(repr(model.shapes_["x0"])) < 130 and "'x0'" in repr(model.shapes_["x0"])
    for found in (model.marginals_, model.shapes_):
        assert found.get("x9") is None and "x9" not in found
        with pytest.raises(KeyError, match=r"Expected one of 'x0', 'x1', 'x2', found 'xx0'\. Did you mean 'x0'"):
            found["xx0"]


def test_what_is_not_proven_is_refused_by_name() -> None:
    X, score = numbers()
    with pytest.raises(UnmetNeeds, match="Gaussian"):
        regressor(delta=0).fit(X, score)
    with pytest.raises(UnmetNeeds, match="intercept"):
        regressor(fit_intercept=False).fit(X, score)
    with pytest.raises(UnmetNeeds, match="no regularizer and no radius"):
        regressor(regularization=1.0).fit(X, score)
    for method in ("gradient", Gradient(), "nonsense"):
        with pytest.raises(ValueError, match="method='auto' or 'additive'"):
            regressor(method=method).fit(X, score)
    with pytest.raises(ValueError, match="loss='squared', 'huber' or 'poisson'"):
        regressor(loss="absolute").fit(X, score)
    with pytest.raises(UnmetNeeds, match="Gaussian"):
        counter(delta=0).fit(X, score)
    with pytest.raises(ValueError, match="declared bounds"):
        counter(bounds="private").fit(X, score)
    for words in ({"exposure": np.ones(N)}, {"offset": np.zeros(N)}):
        with pytest.raises(ValueError, match="exposures only for counts"):
            regressor().fit(X, score, **words)
    with pytest.raises(ValueError, match="exposures only for counts"):
        regressor(max_exposure=2.0).fit(X, score)
    with pytest.raises(ValueError, match="max_exposure="):
        counter().fit(X, score, exposure=np.ones(N))
    with pytest.raises(ValueError, match="own estimator"):
        dperm.LinearRegression(2.0, bounds=(-3, 5), y_bounds=(-3, 7), method="additive").fit(X, score)


@pytest.mark.parametrize("target", ["classes", "three classes", "numeric", "count"])
def test_the_command_fits_explains_its_plan_and_predicts(target: str, tmp_path: Any) -> None:
    X, score = numbers()
    frame = pd.DataFrame(X[:3000], columns=["a", "b", "c"])
    declared: dict[str, Any] = {"column": "t", "type": "numeric", "low": -3, "high": 7}
    frame["t"] = score[:3000]
    if target == "classes":
        declared = {"column": "t", "type": "classes", "classes": ["no", "yes"]}
        frame["t"] = np.where(score[:3000] > 2, "yes", "no")
    if target == "three classes":
        declared = {"column": "t", "type": "classes", "classes": ["low", "middle", "high"]}
        frame["t"] = three()[1][:3000]
    if target == "count":
        declared = {"column": "t", "type": "count", "high": 60}
        frame["t"] = counted()[1][:3000]
    frame.to_csv(tmp_path / "d.csv", index=False)
    columns = {name: {"type": "numeric", "low": -3, "high": 5} for name in "abc"}
    (tmp_path / "s.json").write_text(json.dumps({"columns": columns, "target": declared}))
    words = ["--schema", str(tmp_path / "s.json"), "--epsilon", "2", "--model", "gam"]
    out = str(tmp_path / "out")
    said = CliRunner().invoke(app, ["fit", str(tmp_path / "d.csv"), *words, "--out", out])
    assert said.exit_code == 0, said.output
    assert CliRunner().invoke(app, ["verify", f"{out}/certificate.json"]).exit_code == 0
    report = (tmp_path / "out" / "report.html").read_text()
    titles = [f"{name}, {label}" for name in "abc" for label in ("low", "middle", "high")] if target[0] == "t" else "abc"
    assert all(f'aria-label="{name}: from ' in report for name in titles)
    predicted = CliRunner().invoke(app, ["predict", out, str(tmp_path / "d.csv")])
    assert predicted.exit_code == 0 and len(predicted.output.splitlines()) == 3001
    planned = CliRunner().invoke(app, ["plan", *words, "--n", "3000"])
    assert planned.exit_code == 0 and "marginals" in planned.output, planned.output


def test_a_monotone_shape_is_post_processing(tmp_path: Any) -> None:
    """Rows in order of the column give predictions in order; the certificate still speaks of the released coefficients."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (6000, 2))
    y = np.clip(np.abs(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=len(X)), -2, 2)
    model = dperm.GAMRegressor(epsilon=3, bounds=(-1, 1), y_bounds=(-2, 2), random_state=0).fit(X, y)
    name = next(iter(model.shapes_))
    rising = model.monotone(name)
    line = np.column_stack([np.linspace(-1, 1, 2000), np.zeros(2000)])
    assert np.all(np.diff(rising.predict(line)) >= -1e-9) and not np.all(np.diff(model.predict(line)) >= -1e-9)
    assert np.all(np.diff(rising.shapes_[name].value) >= -1e-12)
    assert np.array_equal(rising.w_, model.w_) and rising.certificate_.verify(allow_seeded=True).ok
    assert rising.edits_ == (f"{name}: never falls",) and model.edits_ == ()
    parts = rising.explain(line)
    assert np.allclose(np.clip(sum(parts.values()), -2, 2), rising.predict(line))
    rising.save(tmp_path / "model")
    again = dperm.load(tmp_path / "model")
    assert np.array_equal(again.predict(line), rising.predict(line)) and again.edits_ == rising.edits_
    assert again.certificate_ is not None


def test_an_edit_replaces_one_shape() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (4000, 2))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[::4, 0] = np.nan
    model = dperm.GAMClassifier(epsilon=3, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    first, second = model.shapes_
    same = model.edited(first, lambda grid, value: value)
    cells = np.column_stack([model.shapes_[first].grid, np.zeros(256)])
    assert np.allclose(same.decision_function(cells), model.decision_function(cells))
    missing = np.array([[np.nan, 0.2]])
    assert np.allclose(same.decision_function(missing), model.decision_function(missing))
    flat = model.edited(first, lambda grid, value: 0.0 * value)
    assert np.ptp(flat.decision_function(cells)) < 1e-12 and np.allclose(flat.shapes_[second].value, model.shapes_[second].value)
    with pytest.raises(ValueError, match="finite numbers"):
        model.edited(first, lambda grid, value: value[:5])
    with pytest.raises(ValueError, match="with a shape"):
        model.edited("nothing", lambda grid, value: value)


def test_another_fit_forgets_the_edits_of_the_last_one() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (4000, 2))
    options = {"epsilon": 3, "bounds": (-1, 1), "y_bounds": (-2, 2), "random_state": 0}
    first = dperm.GAMRegressor(**options).fit(X, X[:, 0])
    changed = first.edited("x0", lambda grid, value: 0.0 * value).fit(X, X[:, 1])
    fresh = dperm.GAMRegressor(**options).fit(X, X[:, 1])
    assert changed.edits_ == () and np.array_equal(changed.predict(X), fresh.predict(X))


def test_scores_of_an_edited_model_are_not_those_of_the_released_one(tmp_path: Any) -> None:
    """The certificate speaks of what was released, an evaluation of what predicts: neither passes for the other."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (2000, 2))
    released = dperm.GAMRegressor(epsilon=3, bounds=(-1, 1), y_bounds=(-2, 2), random_state=0).fit(X, X[:, 0])
    edited = released.edited("x0", lambda grid, value: 0.0 * value)
    folders = {"released": released.save(tmp_path / "released"), "edited": edited.save(tmp_path / "edited")}
    for name, model in (("released", released), ("edited", edited)):
        scores = dperm.evaluate(model, X, X[:, 0], epsilon=1.0, random_state=0)
        (tmp_path / f"{name}.json").write_text(scores.to_json())

    def run(*words: object) -> bool:
        return CliRunner().invoke(app, [str(word) for word in words]).exit_code == 0

    for scored in folders:
        for name, folder in folders.items():
            file, page = tmp_path / f"{scored}.json", tmp_path / "page.md"
            assert run("verify", file, "--allow-seeded", "--model", folder) == (scored == name)
            assert run("card", folder, "--evaluation", file, "--out", page) == (scored == name)
            assert run("report", folder, "--evaluation", file, "--out", page) == (scored == name)
            assert run("verify", folder, "--allow-seeded")


def test_a_model_of_many_coefficients_is_compared_with_its_certificate(tmp_path: Any) -> None:
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(400, 200)), rng.integers(0, 160, 400)
    model = dperm.EmbeddingClassifier(epsilon=3, classes=list(range(160)), steps=2, random_state=0).fit(X, y)
    folder = model.save(tmp_path / "model")
    told = CliRunner().invoke(app, ["verify", str(folder), "--allow-seeded"])
    assert model.w_.size > 30_000 and told.exit_code == 0, told.output
