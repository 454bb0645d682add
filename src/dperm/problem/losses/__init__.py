"""Losses by name. A new loss is one frozen dataclass listed in ``LOSSES``; the tests find it there."""

from __future__ import annotations

from dperm.problem.losses.base import Loss
from dperm.problem.losses.classification import HingeLoss, HuberizedHingeLoss, LogisticLoss, SoftplusHingeLoss, ZeroOneLoss
from dperm.problem.losses.custom import CustomLoss
from dperm.problem.losses.likelihood import CumulantLoss, PoissonLoss, ScaledLoss
from dperm.problem.losses.multinomial import MultinomialLoss
from dperm.problem.losses.regression import AbsoluteLoss, HuberLoss, LogCoshLoss, QuantileLoss, SquaredLoss
from dperm.problem.specs import built, split

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (
        SquaredLoss,
        LogisticLoss,
        MultinomialLoss,
        HingeLoss,
        SoftplusHingeLoss,
        HuberizedHingeLoss,
        AbsoluteLoss,
        QuantileLoss,
        HuberLoss,
        LogCoshLoss,
        PoissonLoss,
        CumulantLoss,
        ZeroOneLoss,
    )
}


def loss_from_spec(spec: object) -> Loss:
    """The loss whose ``spec()`` is given.

    >>> loss_from_spec({"name": "huber", "threshold": 2.0})
    HuberLoss(threshold=2.0)
    """
    if isinstance(spec, dict) and spec.get("name") == CustomLoss.name:
        raise ValueError(
            "Expected a loss that can be rebuilt from its spec, found a custom one. Pass the CustomLoss object itself."
        )
    name, parameters = split(spec, "loss", [*LOSSES, ScaledLoss.name])
    if name == ScaledLoss.name:
        return ScaledLoss(loss_from_spec(parameters["base"]), parameters["factor"])
    return built(LOSSES, name, parameters)
