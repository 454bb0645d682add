"""What a run costs: events, accountants, guarantees and calibration. Pure: no rows, no noise, no files."""

from dperm.privacy.accountants import compose
from dperm.privacy.calibrate import calibrate, calibrate_mu, gaussian_sigma, split_mu
from dperm.privacy.events import (
    EVENTS,
    Approximate,
    Concentrated,
    Event,
    Gaussian,
    HiddenState,
    Pure,
    Sampled,
    event_from_spec,
    register_event,
)
from dperm.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dperm.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PrivacyLoss, PureDP, guarantee_from_spec
from dperm.privacy.hidden_state import hidden_state_mu
from dperm.privacy.levels_event import Levels, levels_threshold
from dperm.privacy.objective_event import ObjectiveDP, ObjectiveEvent, calibrate_shift
from dperm.privacy.products import Composed, ProductDP
from dperm.privacy.relations import RELATIONS, check_relation, kappa
from dperm.privacy.selection import PoissonRuns, SelectionDP, SelectionEvent, TruncatedNegativeBinomial, law_of, selection_epsilon

Selection = SelectionEvent  # its name until version 0.3, which a mechanism has too

__all__ = [
    "EVENTS",
    "GDP",
    "RELATIONS",
    "ZCDP",
    "ApproxDP",
    "Approximate",
    "Composed",
    "Concentrated",
    "Event",
    "Gaussian",
    "Guarantee",
    "HiddenState",
    "Levels",
    "ObjectiveDP",
    "ObjectiveEvent",
    "PoissonRuns",
    "PrivacyLoss",
    "ProductDP",
    "Pure",
    "PureDP",
    "Sampled",
    "Selection",
    "SelectionDP",
    "SelectionEvent",
    "TruncatedNegativeBinomial",
    "calibrate",
    "calibrate_mu",
    "calibrate_shift",
    "check_relation",
    "compose",
    "event_from_spec",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_sigma",
    "guarantee_from_spec",
    "hidden_state_mu",
    "kappa",
    "law_of",
    "levels_threshold",
    "register_event",
    "selection_epsilon",
    "split_mu",
]
