"""docs/audit.md: the tables of `make audit` with date and commit. The section on peers is kept from one run to the next."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dperm.audit.bounds import describe
from dperm.audit.closed_form import ExactRow
from dperm.audit.planted import CONFIDENCE, Plant
from dperm.audit.suite import CHOOSING, ENOUGH, FAMILY, Result
from dperm.audit.trials import Distinguished
from dperm.privacy import Guarantee

START, END = "<!-- peers: written by benchmarks/audit_peers.py -->", "<!-- end of peers -->"
PART_START, PART_END = "<!-- run apart: written by dperm audit --suite --only {} -->", "<!-- end of run apart {} -->"
Examined = tuple[Plant, Distinguished, Distinguished]


def write_page(
    path: Path, exact: list[ExactRow], results: list[Result], examined: list[Examined], *, seconds: float, processes: int, at: str
) -> None:
    """Write the whole page; `at` is the commit read when the run began; what stands between the peers' marks stays as it is."""
    peers = kept_section(path.read_text(encoding="utf-8")) if path.is_file() else ""
    parts = [
        "# Audit: what a certificate claims, and what an attack can prove",
        f"Written by `dperm audit --suite` on {datetime.date.today().isoformat()} at commit `{at}`, "
        f"in {seconds / 60:.1f} minutes with {processes} processes. "
        "How the bounds are made: [theorems/audit.md](theorems/audit.md).",
        summary(exact, results, examined),
        exact_table(exact),
        trial_table(results),
        refusals(results),
        power_table(examined),
        f"{START}\n{peers}\n{END}",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def write_part(
    path: Path, exact: list[ExactRow], results: list[Result], only: str, examined: Sequence[Examined] = (), *, at: str
) -> None:
    """Put a run of some cases at the end of the page; the next whole run takes it out, because it has them itself."""
    when = f"Written by `dperm audit --suite --only {only}` on {datetime.date.today().isoformat()} at commit `{at}`."
    trials = "\n".join(line for line in trial_table(results).splitlines() if line.startswith("|"))
    tables = (exact_table(exact), trials, power_table(list(examined)))
    said = summary(exact, results, list(examined))
    parts = [f"## Run apart: {only}", f"{when} {said}", *(table.removeprefix("## ") for table in tables)]
    replace_section(path, "\n\n".join(part for part in parts if part), (PART_START.format(only), PART_END.format(only)))


def replace_section(path: Path, text: str, marks: tuple[str, str] = (START, END)) -> None:
    """Put `text` between the marks (the peers' if left out); a page without marks gets them at its end."""
    start, end = marks
    page = path.read_text(encoding="utf-8") if path.is_file() else "# Audit\n"
    if start not in page:
        page += f"\n{start}\n\n{end}\n"
    before, rest = page.split(start, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{start}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def kept_section(page: str) -> str:
    """What stands between the peers' marks, or nothing.

    >>> kept_section(f"a {START}\\nfound\\n{END} b")
    'found'
    """
    if START not in page or END not in page:
        return ""
    return page.split(START, 1)[1].split(END, 1)[0].strip()


def commit(path: Path) -> str:
    """The commit of the working tree, with a mark where tracked files differ from it."""

    def git(*words: str) -> str:
        folder = path.resolve().parent if path.resolve().parent.is_dir() else Path.cwd()
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + (" with local changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def summary(exact: list[ExactRow], results: list[Result], examined: list[Examined]) -> str:
    audited = [result for result in results if result.found is not None]
    broken = sum(row.verdict == "violated" for row in exact) + sum(row.verdict == "violated" for row in audited)
    counts = {word: sum(row.verdict == word for row in results) for word in ("holds", "inconclusive", "not run")}
    strong = sum(row.verdict == "holds" and row.epsilon_share >= ENOUGH for row in audited)
    caught = sum(bool(bad.violates) for _, bad, _ in examined)
    accused = sum(bool(good.violates) for _, _, good in examined)
    return (
        f"**{broken} violations** in {len(exact)} exact and {len(audited)} statistical audits of our own claims. Of the "
        f"statistical ones {counts['holds']} hold with a bound of at least {ENOUGH:.0%} of the claim ({strong} of them at least "
        f"{ENOUGH:.0%} of ε itself, the others of μ), {counts['inconclusive']} are inconclusive, and {counts['not run']} more "
        f"were not run for want of time. The auditor reported {caught} of {len(examined)} planted bugs and accused {accused} of "
        "as many correct versions."
    )


def claimed(guarantee: Guarantee, delta: float) -> str:
    mu = guarantee.gdp()
    epsilon = guarantee.epsilon(delta)
    return f"{epsilon:.3g}" + (f" (μ = {mu:.3g})" if mu is not None and delta > 0 else "")


def exact_table(rows: list[ExactRow]) -> str:
    if not rows:
        return ""
    lines = [
        "## Exact audits",
        "True privacy of one-dimensional regressions by quadrature of the output density, worst pair of a family. The interval "
        "holds the true ε of that pair at δ = 1e-3. Rows of “intervals”, “heads” and “additive” are single releases.",
        "| mechanism | relation | claimed ε | true ε of the worst pair | verdict |\n|---|---|---|---|---|",
    ]
    table = [
        f"| {row.name} | {row.relation} | {row.claimed:.4g} | {row.true[0]:.3f} … {row.true[1]:.3f} | {row.verdict} |"
        for row in rows
    ]
    return "\n\n".join(lines) + "\n" + "\n".join(table)


def trial_table(results: list[Result]) -> str:
    audited = [result for result in results if result.found is not None]
    if not audited:
        return ""
    head = (
        "## Statistical audits\n\n"
        "Each row fits the estimator many times on two neighbours that differ in one record at the edge of the bounds, and tests "
        "the whole certified profile on everything the certificate covers: coefficients, released values, and the noisy sums "
        f"behind them with their log-likelihood ratio. {CHOOSING:.0%} of the fits choose a test, the others count; that the "
        "ratio is positive is a test known beforehand, for which all fits count. Rows still inconclusive after a first round get "
        "a second with fresh fits. False alarms: each round of a row has its part of "
        f"{FAMILY:.0%}, so any false accusation in the whole table is at most {FAMILY:.0%} likely, and each bound is above the "
        "truth with no more than its row's part of it.\n\n"
        "- **violated**: the fits prove that the claim is false.\n"
        f"- **holds**: no contradiction, by a test that proves at least {ENOUGH:.0%} of the claimed ε, or of the claimed μ where "
        "the claim is μ-GDP, to be used. The bounds say how much. What lies between a bound and its claim is room that the audit "
        "cannot see into, not a leak: the number of fits limits every bound (at 99.99 % confidence 500 fits prove no more than "
        "ε ≈ 3.4 even of outputs that never agree), and few pairs use a claim up.\n"
        "- **inconclusive**: no contradiction, but the test proves less than that: weak evidence.\n"
        "- **refused**: the estimator does not take the declaration; the reasons are below the table.\n\n"
        "| estimator | method | mechanism | relation | noise | claimed ε at δ | ε at least | μ at least | fits | verdict |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    lines = []
    for result in results:
        case, found = result.case, result.found
        start = f"| {case.name} | {case.method} | {result.mechanism} | {case.relation} | {case.noise} | "
        if found is None or result.claim is None:
            if case.method == "auto" or result.verdict == "not run":  # of mechanisms by name only those that apply to the loss
                lines.append(f"{start}– | – | – | – | {result.verdict} |")
            continue
        lines.append(
            f"{start}{claimed(result.claim, found.delta)} at {found.delta:g} | {describe(found.epsilon_lower)} | "
            f"{describe(found.mu_lower)} | 2 × {result.fits} | {result.words} |"
        )
    return head + "\n" + "\n".join(lines)


def refusals(results: list[Result]) -> str:
    refused: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        if result.verdict == "refused":
            refused.setdefault((result.case.name, result.case.method, result.note), []).append(result.case.relation)
    if not refused:
        return ""
    lines = [f"- {name}, {method} ({', '.join(sorted(set(where)))}): {note}" for (name, method, note), where in refused.items()]
    return "### Refused, with the reason given\n\n" + "\n".join(lines)


def power_table(examined: list[Examined]) -> str:
    if not examined:
        return ""
    head = (
        "## Power: planted bugs\n\n"
        f"Each bug and its correct version are audited against the same claim at confidence {CONFIDENCE}; the correct versions "
        f"together are accused with probability at most {len(examined) * (1 - CONFIDENCE):.1%}. Seconds are for one process.\n\n"
        "| planted bug | claimed ε at δ | broken: ε at least | μ at least | reported | seconds | correct: ε at least | accused "
        "|\n"
        "|---|---|---|---|---|---|---|---|"
    )
    lines = [
        f"| {plant.name} | {claimed(plant.claim, plant.delta or 0.0)} at {plant.delta:g} | {describe(bad.epsilon_lower)} | "
        f"{describe(bad.mu_lower)} | {'yes' if bad.violates else 'NO'} | {bad.seconds:.0f} | {describe(good.epsilon_lower)} | "
        f"{'YES' if good.violates else 'no'} |"
        for plant, bad, good in examined
    ]
    return head + "\n" + "\n".join(lines)
