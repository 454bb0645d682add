"""Private linear classification for accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dperm.estimators.classifier import PrivateClassifier
from dperm.problem import HingeLoss, HuberizedHingeLoss, LogisticLoss, Loss, MultinomialLoss, SoftplusHingeLoss

LOSSES = ("auto", "clipped-logistic", "softplus-hinge", "huberized-hinge", "hinge")


@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVC(PrivateClassifier):
    """A large-margin linear classifier, sign(⟨x, w⟩), released with (ε, δ)-differential privacy. Made for accuracy.

    Scores are margins, not log-odds: for probabilities use `LogisticRegression`. More than two classes use the softmax form.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    loss : str, default "auto"
        "auto" is a logistic slope that is cut off at a quarter of the typical row's (`method="scaled-gradient"`): constant
        for rows on the wrong side, falling to zero on the right side, like a hinge with a round corner, at a quarter of the
        sensitivity. Other methods take "softplus-hinge", the smooth hinge h·log(1 + e^((1 - yz)/h)).
    width : float, default 0.5
        The width h of the smooth hinge.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 400).reshape(-1, 1)
    >>> model = LinearSVC(epsilon=5, bounds=(-1, 1), classes=[0, 1], random_state=0)
    >>> model.fit(X, (X[:, 0] > 0).astype(int)).score(X, X[:, 0] > 0) > 0.9
    True
    """

    asked_for: ClassVar[str] = "accuracy"

    loss: str = "auto"
    width: float = 0.5

    def _loss(self) -> Loss:
        if self.loss not in LOSSES:
            raise ValueError(f"Expected loss in {LOSSES}, found {self.loss!r}. Pass one of them.")
        if len(self.classes_) > 2:
            if self.loss not in ("auto", "clipped-logistic"):
                raise ValueError(f"Expected two classes for loss={self.loss!r}, found {len(self.classes_)}. Leave loss='auto'.")
            return MultinomialLoss(classes=len(self.classes_))
        name = self.loss
        if name == "auto":
            method = self.method if isinstance(self.method, str) else self.method.name
            scaled = method == "scaled-gradient" or (method == "auto" and self.delta != 0)
            name = "clipped-logistic" if scaled else "softplus-hinge"
        return {
            "clipped-logistic": LogisticLoss(),
            "softplus-hinge": SoftplusHingeLoss(self.width),
            "huberized-hinge": HuberizedHingeLoss(self.width),
            "hinge": HingeLoss(),
        }[name]
