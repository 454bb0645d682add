"""The public numbers of a stage: a frozen dataclass to the mechanism that reads them, a mapping to the record that has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True, eq=False)
class StageSettings(Mapping[str, object]):
    """Base of the settings of a stage. Its fields are what the record states, in their order; nothing else says how.

    >>> @dataclass(frozen=True, eq=False)
    ... class Sample(StageSettings):
    ...     rate: float
    ...     rounds: int | None = None
    ...     LEFT_OUT = ("rounds",)
    >>> dict(Sample(0.5)), Sample(0.5, 3)["rounds"]
    ({'rate': 0.5}, 3)
    """

    LEFT_OUT: ClassVar[tuple[str, ...]] = ()  # fields that a record does not state where they are None

    def _stated(self) -> list[str]:
        return [f.name for f in fields(self) if f.name not in self.LEFT_OUT or getattr(self, f.name) is not None]

    def __getitem__(self, name: str) -> object:
        if name not in self._stated():
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stated())

    def __len__(self) -> int:
        return len(self._stated())
