"""The lectures' two-layer network, trained privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.estimators.classifier import SoftmaxClassifier
from dperm.estimators.matrix import row_products
from dperm.estimators.saving import Extra, NetworkRecord
from dperm.mechanisms.network import Network
from dperm.mechanisms.registry import mechanism_of_plan
from dperm.problem import Interval
from dperm.problem.arrays import dense
from dperm.release.plan import Mechanism
from dperm.tables.labels import declared_classes
from dperm.terms.network import Inputs, Layout, RowMap
from dperm.walk.fitting import Release


@dataclass(eq=False, repr=False, kw_only=True)
class MLPClassifier(SoftmaxClassifier):
    """softmax(tanh(z W₁ + b₁) W₂ + b₂) on private directions z of the rows, released with (ε, δ)-differential privacy.

    Full batches are the default: sampling gained nothing in accuracy, and they keep an exact guarantee under every relation.

    **Guarantee**: that of `certificate_`. Every row's gradient is clipped, so nothing is assumed of the loss surface.

    Parameters
    ----------
    hidden : int, default 64
        Number of tanh units.
    centred_rows : "auto" or bool, default "auto"
        Whether each row is centred by its own mean and brought to unit length. "auto" does so for 32 or more columns with
        the same declared bounds, like the pixels of an image.
    components : int or None, default None
        Number of private directions that the rows are projected on; by a rule in public numbers if left out.
    steps : int or None, default None
        Steps of the descent; by a rule in public numbers if left out.
    clip : float or None, default None
        Largest norm of a row's gradient; by a rule in public numbers if left out.
    sampling_rate : float or None, default None
        Poisson sampling instead of full batches: DP-SGD, each row's gradient clipped in closed form.
    relation : {"zero-out", "replace-one", "add-remove"}, default "zero-out"
        Poisson sampling is refused under "replace-one", where its theorem does not hold.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = MLPClassifier(epsilon=8, bounds=(-1, 1), classes=[0, 1], hidden=16, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    asked_for: ClassVar[str] = "probabilities"
    per_column: ClassVar[bool] = False

    relation: str = "zero-out"
    hidden: int = 64
    centred_rows: bool | str = "auto"
    components: int | None = None
    steps: int | None = None
    clip: float | None = None
    sampling_rate: float | None = None

    def _weights(self, known: np.ndarray | None, sample_weight: object, n: int) -> tuple[np.ndarray | None, float | None]:
        if sample_weight is not None:
            raise ValueError("Expected no sample_weight= for a network, found one. Its clip would undo weights; leave it out.")
        return super()._weights(known, None, n)

    def _method(self) -> Mechanism | str:
        if isinstance(self.method, Network):
            return self.method
        if not isinstance(self.method, str):
            raise ValueError(
                f"Expected method='auto' or a Network(...) for a network, found {type(self.method).__name__}. Its loss is not "
                "convex, so no other mechanism covers it."
            )
        if self.method not in ("auto", "network"):
            raise ValueError(f"Expected method='auto' or 'network' for a network, found {self.method!r}. Its loss is not convex.")
        if not self.fit_intercept:
            raise ValueError("Expected fit_intercept=True for a network, found False. Its layers have their own biases.")
        if self.class_weight is not None:
            raise ValueError("Expected no class_weight= for a network, found one. Its clip would undo the weights; leave it out.")
        return Network(
            self.hidden, self.components, self._alike(), self.steps, self.clip, sampling_rate=self.sampling_rate
        )

    def _alike(self) -> bool:
        """Whether rows hold like things, by declaration alone."""
        if isinstance(self.centred_rows, str):
            if self.centred_rows != "auto":
                raise ValueError(f"Expected centred_rows='auto', True or False, found {self.centred_rows!r}. Pass one of them.")
            encoding = self._encoding
            same = len(set(zip(encoding.kinds, encoding.low.tolist(), encoding.high.tolist()))) == 1
            return bool(same and encoding.d >= 32 and encoding.kinds[0] in ("numeric", "free", "sparse"))
        return bool(self.centred_rows)

    def _store(self, release: Release) -> None:
        mechanism = mechanism_of_plan(release.plan, Network)
        self._layout = mechanism.layout(release.plan)
        interval = Interval(0.0, float(len(self.classes_) - 1))
        self._inputs = mechanism.inputs(self._problem(interval), release.released)
        super()._store(release)

    def _margins(self) -> tuple[int, ...]:
        return (-1,)

    def _in_callers_units(self) -> None:
        W1, b1, W2, b2 = self._layout.split(self.w_)
        self.coefs_, self.intercepts_ = [W1, W2], [b1, b2]

    def _extra_record(self) -> Extra:
        inputs = self._inputs
        net: NetworkRecord = {
            "hidden": self._layout.hidden,
            "centred_rows": bool(inputs.rows.centred),
            "radius": float(inputs.rows.radius),
            "length": float(inputs.length),
            "directions": np.asarray(inputs.directions, dtype=np.float64).tolist(),
        }
        return {"classes": self.classes_.tolist(), "network": net}

    def _restore(self, extra: Extra) -> None:
        self.classes_ = declared_classes(extra["classes"], None)
        net = extra["network"]
        with np.errstate(over="ignore"):
            directions = np.array(net["directions"], dtype=np.float64).astype(np.float32)
        if directions.ndim != 2 or directions.shape[0] != self._encoding.d or not np.isfinite(directions).all():
            raise ValueError("directions that do not fit the columns")
        numbers = (net["radius"], net["length"])
        if not all(isinstance(v, int | float) and not isinstance(v, bool) and np.isfinite(v) and v > 0 for v in numbers):
            raise ValueError("a radius or length that is no positive number")
        if type(net["hidden"]) is not int or type(net["centred_rows"]) is not bool or not 1 <= net["hidden"] <= self.w_.size:
            raise ValueError("a number of hidden units or a rule for rows of the wrong type")
        self._layout = Layout(directions.shape[1], net["hidden"], len(self.classes_))
        if self.w_.shape != (self._layout.size,) or not self.fit_intercept:
            raise ValueError("weights that do not fit the layers")
        self._inputs = Inputs(RowMap(net["centred_rows"], float(net["radius"])), directions, float(net["length"]))
        self.hidden = net["hidden"]

    def _scores_of(self, X: object) -> np.ndarray:
        encoded = dense(self._encoded(X))
        size = np.linalg.norm(encoded, axis=1, keepdims=True)
        limit = self._inputs.rows.radius
        encoded = encoded * np.minimum(1.0, limit / np.maximum(size, 1e-300))  # the rule that training rows went through
        W1, b1, W2, b2 = self._layout.split(self.w_)
        # Not by products of matrices, as `Layout.scores` has it: a paid score must be a function of its row alone.
        hidden = np.tanh(row_products(self._inputs.of(encoded).astype(np.float64), np.ascontiguousarray(W1.T)) + b1)
        return np.asarray(row_products(hidden, np.ascontiguousarray(W2.T)) + b2)
