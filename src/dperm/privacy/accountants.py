"""compose: what a sequence of adaptively chosen events costs together."""

from __future__ import annotations

from collections.abc import Iterable

from dperm.privacy.events import Event
from dperm.privacy.guarantees import Guarantee


def compose(events: Iterable[Event], relation: str) -> Guarantee:
    raise NotImplementedError
