"""Finite classes of rules, streamed in blocks (`classes`), and those that a caller stores (`stored`)."""

from dperm.mechanisms.hypotheses.classes import *  # noqa: F403
