"""Losses, regularizers and domains that stand for their classes in tests: a class that needs no parameter stands for itself."""

from __future__ import annotations

from dperm.problem import (
    DOMAINS,
    LOSSES,
    REGULARIZERS,
    Affine,
    Ball,
    Box,
    CumulantLoss,
    Domain,
    ElasticNet,
    HalfSpace,
    Intersection,
    Lasso,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    NonNegative,
    PoissonLoss,
    QuantileLoss,
    Regularizer,
    Ridge,
    ScaledLoss,
    SquaredLoss,
)

_LOSSES: dict[type[Loss], tuple[Loss, ...]] = {
    MultinomialLoss: (MultinomialLoss(2), MultinomialLoss(4)),
    QuantileLoss: (QuantileLoss(0.5), QuantileLoss(0.9)),
    PoissonLoss: (PoissonLoss(-1.0, 1.5),),
    # Every family, on a range that the tests' margins leave on both sides.
    CumulantLoss: (
        CumulantLoss("gaussian", -2.0, 1.5),
        CumulantLoss("bernoulli"),
        CumulantLoss("bernoulli", 0.5, 2.0),
        CumulantLoss("poisson", -1.0, 1.0),
        CumulantLoss("exponential", -3.0, -0.5),
        CumulantLoss("gamma", -2.0, -0.25),
        CumulantLoss("inverse-gaussian", -3.0, -0.5),
    ),
    ScaledLoss: (ScaledLoss(SquaredLoss(), 2.0), ScaledLoss(LogisticLoss(), 0.5)),
}
_REGULARIZERS: dict[type[Regularizer], tuple[Regularizer, ...]] = {
    Ridge: (Ridge(0.1), Ridge(3.0)),
    Lasso: (Lasso(0.7),),
    ElasticNet: (ElasticNet(0.5, 0.3),),
}


def of_loss(kind: type[Loss]) -> tuple[Loss, ...]:
    return _LOSSES.get(kind) or (kind(),)


def losses() -> list[Loss]:
    """Every listed loss, so that a new one is picked up."""
    return [loss for kind in LOSSES.values() for loss in of_loss(kind)]


def regularizers() -> list[Regularizer]:
    return [item for kind in REGULARIZERS.values() for item in _REGULARIZERS.get(kind) or (kind(),)]


def domains(d: int) -> list[Domain]:
    rising, flat = tuple(1.0 + j for j in range(d)), (1.0,) * d
    slanted, plane = HalfSpace(rising, 0.5), Affine((flat,), (0.5,))
    known: dict[type[Domain], tuple[Domain, ...]] = {
        Ball: (Ball(0.5), Ball(2.0)),
        Box: (Box(-1.0, 1.0, d), Box(tuple(0.5 - j for j in range(d)), rising)),
        HalfSpace: (slanted, HalfSpace((1.0,) + (0.0,) * (d - 1), -0.25)),
        Affine: (plane,),
        Intersection: (
            Intersection((Ball(1.0), slanted)),
            Intersection((Ball(2.0), NonNegative())),
            Intersection((Box(-1.0, 1.0, d), plane)),
        ),
    }
    return [item for kind in DOMAINS.values() for item in known.get(kind) or (kind(),)]
