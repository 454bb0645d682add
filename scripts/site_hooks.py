"""Hooks of the documentation site: theorem pages and notebooks enter the navigation by themselves."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# mkdocs loads this file by its path: what lies beside it is not found otherwise.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from site_formulas import set_formulas

# In the order of a reader who begins.
NOTEBOOKS = ("first-model", "choosing-epsilon", "profile-to-model", "additive-model", "people-with-many-rows", "auditing")


# The theorems that the guarantee of each estimator rests on; "auto" takes the first one as a rule.
THEOREMS = {
    "LogisticRegression": ("objective", "scaled-gradient", "scaled-heads", "gradient", "intervals"),
    "LinearSVC": ("scaled-gradient", "gradient"),
    "LinearRegression": ("scaled-gradient", "statistics", "intervals"),
    "Ridge": ("scaled-gradient", "statistics", "output", "intervals"),
    "Lasso": ("selection",),
    "HuberRegressor": ("scaled-gradient", "gradient", "intervals"),
    "QuantileRegressor": ("quantile", "gradient", "intervals"),
    "PoissonRegressor": ("poisson", "intervals"),
    "GAMClassifier": ("additive",),
    "GAMRegressor": ("additive", "poisson"),
    "MeanEstimator": ("gradient",),
    "MedianEstimator": ("exponential",),
    "FiniteClassLearner": ("exponential",),
    "MLPClassifier": ("network", "gradient"),
    "EmbeddingClassifier": ("heads", "least-squares"),
    "PrivateGridSearch": ("exponential", "filters"),
}


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
    """On the page of the API every estimator is followed by its theorems; formulas of the theorem pages are set."""
    if page.file.src_uri.startswith("theorems/") and page.file.src_uri != "theorems/lectures.md":
        return set_formulas(markdown)
    if page.file.src_uri != "api.md":
        return markdown
    return re.sub(r"^(::: [\w.]*?(\w+))$", lambda match: match[1] + theorem_line(match[2]), markdown, flags=re.M)


def theorem_line(name: str) -> str:
    if name not in THEOREMS:
        return ""
    return "\n\n**Theorems**: " + ", ".join(f"[{page}](theorems/{page}.md)" for page in THEOREMS[name]) + "."
