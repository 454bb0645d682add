"""The gallery: one function per figure, all of them drawn by `python -m dperm.report.gallery docs/gallery`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dperm.report import measured_figures as measured
from dperm.report import theory_figures as theory

_FIGURES = (
    theory.risk_against_n, theory.risk_against_epsilon, theory.risk_against_dimension, measured.measured_against_n,
    measured.measured_ratio, measured.rank_against_dimension, theory.composition, theory.accountants, theory.sample_sizes,
    theory.printed_and_corrected, theory.steps_against_risk, theory.lower_bounds, theory.logistic_sensitivity, measured.separator,
)  # fmt: skip
FIGURES: dict[str, Callable[[Path], None]] = {drawn.__name__.replace("_", "-"): drawn for drawn in _FIGURES}


def draw(folder: Path, names: Sequence[str] | None = None, ending: str = "svg") -> list[Path]:
    """Draw the named figures (default: all) into `folder` and write `index.md` when all are drawn."""
    chosen = list(FIGURES) if names is None else list(names)
    unknown = [name for name in chosen if name not in FIGURES]
    if unknown:
        raise ValueError(f"Expected figure names among {', '.join(FIGURES)}, found {', '.join(unknown)}. Pass one of them.")
    paths = []
    for name in chosen:
        path = folder / f"{name}.{ending}"
        FIGURES[name](path)
        paths.append(path)
    if names is None:
        (folder / "index.md").write_text(index(ending), encoding="utf-8")
    return paths


def index(ending: str = "svg") -> str:
    """The gallery page: every figure with its function's docstring as the caption."""
    lines = [
        "# Gallery", "",
        "Drawn by `python -m dperm.report.gallery docs/gallery`; every curve is a function of `dperm.theory`, every",
        "dot an experiment of `dperm.theory.simulate` with a fixed seed. Bounds are worst cases: they inform, they do not rank",
        "mechanisms on real data.", "",
    ]  # fmt: skip
    for name, function in FIGURES.items():
        caption = " ".join((function.__doc__ or "").split()).replace("*", r"\*")  # θ* is no emphasis
        title = name.replace("-", " ").capitalize()
        lines += [f"## {title}", "", caption, "", f"![{title}]({name}.{ending})", ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: folder, `--only` names, `--png`."""
    parser = argparse.ArgumentParser(prog="python -m dperm.report.gallery", description="Draw the theory gallery.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/gallery"))
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(FIGURES), help="draw these figures only")
    parser.add_argument("--png", action="store_true", help="write PNG instead of SVG")
    options = parser.parse_args(arguments)
    for path in draw(options.folder, options.only, "png" if options.png else "svg"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
