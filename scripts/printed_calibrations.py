"""Writes the table of true ε of the lectures' printed calibrations into docs/theorems/gradient.md."""

from __future__ import annotations

from pathlib import Path

from dperm.privacy.as_printed import claim_sigma, slides_sigma

PAGE = Path(__file__).resolve().parents[1] / "docs" / "theorems" / "gradient.md"
START, END = "<!-- printed calibrations: start -->", "<!-- printed calibrations: end -->"


def table() -> str:
    """Claimed ε against the true one, δ = 1e-5, by exact composition."""
    lines = ["| formula | steps | claimed ε | true ε, replace-one | true ε, zero-out |", "|---|---|---|---|---|"]
    for steps in (1, 100, 10_000):
        for epsilon in (1.0, 8.0):
            printed = slides_sigma(epsilon, 1e-5, steps, accept_known_error=True)
            lines.append(_row("σ = L√(2T ln(1.25T/δ))/ε (slides)", steps, epsilon, printed))
    for epsilon in (0.1, 0.5, 1.0, 4.0, 8.0):
        printed = claim_sigma(epsilon, 1e-5, 100, accept_known_error=True)
        lines.append(_row("σ = 2L√(T ln(1/δ))/(nε) (lecture 13)", 100, epsilon, printed))
    return "\n".join(lines)


def _row(name: str, steps: int, epsilon: float, printed: object) -> str:
    true = printed.true_epsilon  # type: ignore[attr-defined]
    replace, null = true["replace-one"], true["zero-out"]
    mark = " **broken**" if replace > epsilon else ""
    return f"| {name} | {steps:,} | {epsilon:g} | {replace:.4g}{mark} | {null:.4g} |"


def page(text: str) -> str:
    """The page with a fresh table between its marks."""
    before, rest = text.split(START)
    return f"{before}{START}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
