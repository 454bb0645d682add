"""report.html: one self-contained page about a fitted model. It shows public or paid-for numbers only."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--bar:#0b5cad;--neg:#a4450b;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--line:#3d444d;--bar:#58a6ff;--neg:#ff9e64;--paper:#0d1117}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:52rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid var(--line)}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .5rem;border-bottom:1px solid var(--line)}
td.n{text-align:right;font-variant-numeric:tabular-nums}.say{font-size:1.1rem}.soft{color:var(--soft)}
.warn{border:2px solid var(--neg);padding:.5rem 1rem}svg text{fill:var(--ink);font-size:12px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.8rem}
@media print{details{display:block}body{max-width:none}}
"""


def report_page(model: Any, scores: dict[str, str]) -> str:
    """The page as text. `scores` are shown as given: the caller vouches that they are public or paid for."""
    certificate = model.certificate_
    parts = [
        f"<h1>{type(model).__name__}, released with differential privacy</h1>",
        f'<p class="say">{html.escape(certificate.statement)}</p>',
    ]
    if certificate.noise == "seeded":
        parts.append('<p class="warn"><strong>NOT PRIVATE.</strong> The noise was seeded, for tests.</p>')
    parts += [_odds(certificate.epsilon), _facts(certificate), _scores(scores), _coefficients(model)]
    parts.append(f"<h2>What was done</h2><pre>{html.escape(model.plan_.explain())}</pre>")
    parts.append(
        "<h2>Certificate</h2><p>Anyone can check it without the data: <code>dperm verify certificate.json</code>. A pass shows "
        "that the claim is consistent, not that the run took place.</p><details><summary>The whole record</summary>"
        f"<pre>{html.escape(certificate.to_json())}</pre></details>"
    )
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>dperm report</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _odds(epsilon: float) -> str:
    """What ε means for one person, as posterior beliefs: prior p becomes at most p·e^ε/(1 - p + p·e^ε)."""
    rows = []
    for prior in (0.01, 0.1, 0.5):
        factor = math.exp(min(epsilon, 500.0))
        after = prior * factor / (1 - prior + prior * factor)
        before = prior / factor / (1 - prior + prior / factor)
        rows.append(f'<tr><td class="n">{prior:.0%}</td><td class="n">{before:.2%} … {after:.2%}</td></tr>')
    return (
        "<h2>What this means for one person</h2><p>An attacker who knows everyone else's record and believes something about the "
        "last person's record beforehand ends up, after seeing this model, with a belief in this range:</p>"
        f"<table><tr><th>before</th><th>after</th></tr>{''.join(rows)}</table>"
    )


def _facts(certificate: Any) -> str:
    record = certificate.record
    facts = {
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "relation": certificate.relation,
        "per": certificate.unit,
        "mechanism": certificate.mechanism,
        "noise": f"{certificate.noise}: {record['noise']['claim']}",
        "rows (public n)": record["shape"]["n"],
        "columns after encoding": record["shape"]["d"],
    }
    for number, text in enumerate(record["assumptions"], 1):
        facts[f"assumption {number}"] = text
    rows = "".join(f"<tr><th scope=row>{k}</th><td>{html.escape(str(v))}</td></tr>" for k, v in facts.items())
    return f"<h2>Guarantee</h2><table>{rows}</table>"


def _scores(scores: dict[str, str]) -> str:
    if not scores:
        return (
            "<h2>Accuracy</h2><p class=soft>Absent: a score on private rows would leak them. "
            "Use <code>dperm evaluate</code>, which pays for it.</p>"
        )
    rows = "".join(f"<tr><th scope=row>{html.escape(k)}</th><td class=n>{html.escape(v)}</td></tr>" for k, v in scores.items())
    return f"<h2>Scores</h2><table>{rows}</table>"


def _coefficients(model: Any) -> str:
    """The largest coefficients of the encoded columns as bars: those are on one scale and can be compared."""
    weights = np.atleast_2d(model.w_)[0][: model._encoding.d]
    order = np.argsort(-np.abs(weights))[:25]
    largest = max(float(np.abs(weights).max()), 1e-300)
    height = 20 * len(order) + 10
    bars = []
    for row, j in enumerate(order):
        length = 220 * abs(float(weights[j])) / largest
        left = 480 if weights[j] >= 0 else 480 - length
        colour = "var(--bar)" if weights[j] >= 0 else "var(--neg)"
        y = 20 * row + 5
        bars.append(
            f'<text x="250" y="{y + 12}" text-anchor="end">{html.escape(model._encoding.names[j][:36])}</text>'
            f'<rect x="{left:.1f}" y="{y}" width="{length:.1f}" height="15" fill="{colour}"/>'
            f'<text x="705" y="{y + 12}">{weights[j]:+.3f}</text>'
        )
    return (
        "<h2>Coefficients</h2><p class=soft>The largest 25, per encoded column (numeric columns run over their declared range); "
        "blue raises, orange lowers.</p>"
        f'<svg viewBox="0 0 760 {height}" role="img" aria-label="bar chart of the largest coefficients" width="100%">'
        f'<line x1="480" y1="0" x2="480" y2="{height}" stroke="var(--line)"/>{"".join(bars)}</svg>'
    )
