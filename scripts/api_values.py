"""For the API page: an inspected value has no docstring of its own, and must not show that of `str` or `bool`."""

from __future__ import annotations

from typing import Any

import griffe


class OwnDocstrings(griffe.Extension):
    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if "property" not in attr.labels:
            attr.docstring = None
