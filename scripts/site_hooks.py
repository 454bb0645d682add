"""Hooks of the documentation site: theorem pages and notebooks enter the navigation by themselves, and a line `::: dotted.name`
becomes the signature and docstring of that object.

A module stands for all its public functions and classes. Doctests become code blocks; they are run by the test suite.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

# In the order of a reader who begins.
NOTEBOOKS = ("first-model", "choosing-epsilon", "profile-to-model", "additive-model", "people-with-many-rows", "auditing")


def on_config(config: Any) -> Any:
    """Every page of docs/theorems, the map of the lectures first; and whatever page the navigation does not name yet."""
    docs = Path(config["docs_dir"])
    theorems = sorted(str(path.relative_to(docs)) for path in (docs / "theorems").glob("*.md"))
    theorems.sort(key=lambda name: name != "theorems/lectures.md")
    for entry in config["nav"]:
        if isinstance(entry, dict) and "Theorems" in entry:
            entry["Theorems"] = theorems
        if isinstance(entry, dict) and "Notebooks" in entry:
            entry["Notebooks"] = [f"notebooks/{name}.md" for name in NOTEBOOKS]
    named = str(config["nav"])
    rest = sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md") if f"'{path.relative_to(docs)}'" not in named)
    if rest:
        config["nav"].append({"More": rest})
    return config


def on_files(files: Any, config: Any) -> Any:
    """A page for every notebook, with the outputs that are stored in it."""
    from mkdocs.structure.files import File

    for name in NOTEBOOKS:
        stored = json.loads((Path(config["docs_dir"]) / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
        parts = [f"[Download this notebook]({name}.ipynb)", *(cell_markdown(cell) for cell in stored["cells"])]
        parts[0], parts[1] = parts[1], parts[0]  # the title first
        files.append(File.generated(config, f"notebooks/{name}.md", content="\n\n".join(parts)))
    return files


def cell_markdown(cell: dict[str, Any]) -> str:
    """A cell of a notebook: its text, or its code with what it printed and showed."""
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    parts, printed = [f"```python\n{text}\n```"], ""
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            printed += "".join(output["text"])
        elif "image/png" in data:
            parts.append(f'<img alt="figure" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">')
        elif "text/html" in data:
            shown = "\n".join(line for line in "".join(data["text/html"]).splitlines() if line.strip())
            parts.append(f'<div class="shown">{shown}</div>')
        else:
            printed += "".join(data.get("text/plain", ())) + "\n"
    return "\n\n".join([*parts, *([f"```text\n{printed.rstrip()}\n```"] if printed else [])])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri != "api.md":
        return markdown
    return re.sub(r"^::: ([\w.]+)$", lambda match: reference(match[1]), markdown, flags=re.M)


def reference(name: str) -> str:
    """Markdown for one object."""
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(home), last)
    if not inspect.ismodule(found):
        return described(found, 3)
    own = [m for label, m in vars(found).items() if not label.startswith("_") and getattr(m, "__module__", "") == name]
    members = [member for member in own if inspect.isclass(member) or inspect.isfunction(member)]
    parts = [f"### `{name}`", prose(inspect.getdoc(found) or "")]
    return "\n\n".join([*parts, *(described(member, 4) for member in members)])


def described(thing: Any, level: int) -> str:
    """Heading, signature, docstring, and for a class its public methods."""
    parts = ["#" * level + f" `{thing.__name__}`", f"```python\n{thing.__name__}{signature(thing)}\n```"]
    parts.append(prose(inspect.getdoc(thing) or ""))
    if inspect.isclass(thing):
        for label, member in vars(thing).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if label.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
                continue
            parts += [f"**`{label}{signature(function)}`**", prose(inspect.getdoc(function) or "")]
    return "\n\n".join(parts)


def signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return "(…)"


def prose(text: str) -> str:
    """A docstring as Markdown: doctests fenced, aligned lists and formulas kept as they are."""
    lines, code = [], False
    for line in text.splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not code:
            lines += ["", "```pycon"]
            code = True
        if code and not line.strip():
            lines += ["```", ""]
            code = False
            continue
        plain = not code and "**" not in line and "`" not in line
        lines.append(re.sub(r"([<>*_\[\]])", r"\\\1", line) if plain else line)
    return "\n".join([*lines, "```"] if code else lines)
