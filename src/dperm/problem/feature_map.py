"""A public map from raw rows to features, with a declared norm that is enforced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dperm.problem.arrays import Array
from dperm.problem.bounds import DataBounds
from dperm.problem.intervals import Interval
from dperm.problem.specs import Spec, positive


def _absent(X: Array) -> Array:
    raise ValueError("Expected a feature map with its function, found one read from a spec. Pass the FeatureMap that was fitted.")


@dataclass(frozen=True)
class FeatureMap:
    """x ↦ clip(function(x)) with ||clip(·)||₂ <= output_norm, applied row by row.

    **Guarantee**: the declared norm is enforced by clipping, so constants derived from it hold whatever the
    function returns; the function must treat each row alone (a fit tries that on rows of its own) and must be
    public (fixed before seeing the data). JSON keeps name, norm and dimension, which is all that a certificate's
    constants need; not the function.

    >>> import numpy as np
    >>> square = FeatureMap(lambda X: X**2, output_norm=1.0, output_dimension=2, name="square")
    >>> square(np.array([[2.0, 0.0]])).round(9).tolist()
    [[1.0, 0.0]]
    """

    function: Callable[[Array], Array] = field(compare=False)
    output_norm: float
    output_dimension: int
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "output_norm", positive(self.output_norm, "output_norm"))
        if int(self.output_dimension) != self.output_dimension or self.output_dimension < 1:
            raise ValueError(f"Expected output_dimension >= 1, found {self.output_dimension!r}. Pass the number of features.")

    def __call__(self, X: Array) -> Array:
        """The features of every row, clipped to the declared norm."""
        features = self.function(X)
        if len(features.shape) != 2 or tuple(features.shape) != (X.shape[0], self.output_dimension):
            raise ValueError(
                f"Expected one row of {self.output_dimension} features per input row, found another shape. "
                "Return one row per input row, output_dimension wide."
            )
        return DataBounds(self.output_norm, Interval(0.0, 0.0)).enforce(features)[0]

    def spec(self) -> Spec:
        """JSON form, without the function.

        >>> FeatureMap(abs, 1.0, 2, "absolute").spec()
        {'name': 'absolute', 'output_norm': 1.0, 'output_dimension': 2}
        """
        return {"name": self.name, "output_norm": self.output_norm, "output_dimension": self.output_dimension}

    @classmethod
    def from_spec(cls, spec: Spec, function: Callable[[Array], Array] = _absent) -> FeatureMap:
        """The map whose ``spec()`` is given; calling it needs the function.

        >>> FeatureMap.from_spec({"name": "absolute", "output_norm": 1.0, "output_dimension": 2}).output_norm
        1.0
        """
        return cls(function, spec["output_norm"], spec["output_dimension"], spec["name"])
