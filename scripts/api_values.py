"""For the API page: an inspected value has no docstring of its own, and must not show that of `str` or `bool`; and the type of a
parameter is shown as its docstring has it: read as Python, {"replace-one", …} would be a difference of names. Examples without a
heading of their own get one: read as Markdown, `>>>` would be a quotation and [0.6, 0.8] a link. A module shows what it defines,
and not what it imports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe
import numpy as np

TYPED = re.compile(r"^(\w+) : (.+?)(?:, default .*)?$", re.M)
BARE = re.compile(r"(?<!-\n)^(?=>>> )", re.M)  # not below the rule of a heading


class OwnDocstrings(griffe.Extension):
    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if "property" not in attr.labels:
            attr.docstring = None

    def on_instance(self, *, node: Any, obj: griffe.Object, **_: Any) -> None:
        if isinstance(getattr(node, "obj", None), np.ufunc):  # it does not say where it is from
            obj.docstring = None

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in modules(pkg):
            for name in [name for name, member in module.members.items() if member.is_alias]:
                del module.members[name]
        for text in docstrings(pkg):
            if "Examples\n---" not in text.value:
                text.value = BARE.sub("Examples\n--------\n", text.value, count=1)
            written = {name: words for name, words in TYPED.findall(text.value)}
            if any("," in words for words in written.values()):  # only these are read otherwise than they are written
                for section in text.parsed:
                    if section.kind is griffe.DocstringSectionKind.parameters:
                        for parameter in section.value:
                            parameter.annotation = in_words(written.get(parameter.name), parameter.annotation)


def modules(package: griffe.Module) -> Iterator[griffe.Module]:
    yield package
    for member in package.members.values():
        if not member.is_alias and member.is_module:
            yield from modules(member)  # type: ignore[arg-type]


def docstrings(place: griffe.Object) -> Iterator[griffe.Docstring]:
    """Of everything in a package that is not imported from elsewhere."""
    if place.docstring is not None:
        yield place.docstring
    for member in place.members.values():
        if not member.is_alias:
            yield from docstrings(member)  # type: ignore[arg-type]


def in_words(written: str | None, read: Any) -> Any:
    """A list of types or of choices as it is written, without the braces; one name stays what was read, which has a link.

    >>> in_words('{"a-b", "c"} or None', ...), in_words("array, str or None", ...), in_words("float", ...)
    ('"a-b", "c" or None', 'array, str or None', Ellipsis)
    """
    return written.replace("{", "").replace("}", "") if written and "," in written else read
