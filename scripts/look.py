"""Screenshots of what people look at, in a real Chromium: report, profile, curves, explorer and pages of the site, light and
dark, 1280 and 390 px wide; and what a script can see there: console errors, pages wider than the window, contrasts below 4.5.

    python scripts/look.py OUT      # PNG files into OUT; exit code 1 if anything was found
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "helpers"))
SITE = {"home": "", "theorem": "theorems/objective/", "notebook": "notebooks/additive-model/", "api": "api/",
        "accuracy": "accuracy/"}  # fmt: skip
WIDTHS, THEMES, LEAST = (1280, 390), ("light", "dark"), 4.5
HOSTS = "return performance.getEntriesByType('resource').map(r => new URL(r.name).host)"


def table(n: int = 8000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.integers(18, 90, n), "income": np.round(np.exp(rng.normal(10, 1, n)), 2),
        "region": rng.choice(["north", "south", "west"], n),
        "since": (pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), unit="D")).strftime("%Y-%m-%d"),
        "hour": rng.integers(0, 24, n), "member": rng.choice(["yes", "no"], n),
    })  # fmt: skip
    chance = 1 / (1 + np.exp(-(0.04 * (frame["age"] - 50) + (frame["hour"] > 16) + (frame["member"] == "yes") - 1)))
    return frame.assign(bought=np.where(rng.random(n) < chance, "yes", "no"))


def files(folder: Path) -> dict[str, Path]:
    """The profile page and the report of a fit with a paid evaluation, as files."""
    import dperm
    from dperm.evaluation.evaluate import evaluate
    from dperm.report.profile_page import profile_page

    frame = table()
    found = dperm.profile(frame[:4000], epsilon=2.0, target="bought")
    (folder / "profile.html").write_text(profile_page(found), encoding="utf-8")
    model = dperm.LogisticRegression(epsilon=1.0, schema=found.schema()).fit(frame[:4000])
    scores = evaluate(model, frame[4000:], epsilon=1.0, by="region")
    model.report(folder / "report.html", evaluation=scores)
    curves = dperm.GAMClassifier(epsilon=2.0, schema=found.schema()).fit(frame[:4000])
    curves.report(folder / "curves.html")
    return {name: folder / f"{name}.html" for name in ("profile", "report", "curves")}


def pages(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, address) of every page."""
    from dperm.report.explorer import serve

    for name, file in files(folder).items():
        yield name, file.as_uri()
    explorer = serve(0)
    threading.Thread(target=explorer.serve_forever, daemon=True).start()
    yield "explorer", f"http://127.0.0.1:{explorer.server_address[1]}/"
    explorer.shutdown()
    site = folder / "site"
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(site)], cwd=ROOT, check=True)
    handler = functools.partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_address[1]}/"
    for name, place in SITE.items():
        yield name, home + place
    server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """The terminal is for what was found."""


def main(out: Path) -> int:
    from browser import chromium, contrasts, resize, theme, whole_page

    out.mkdir(parents=True, exist_ok=True)
    mistakes: list[str] = []
    with tempfile.TemporaryDirectory() as held, chromium(Path(held) / "chromium") as driver:
        for name, address in pages(Path(held)):
            for width in WIDTHS:
                for colours in THEMES:
                    resize(driver, width)
                    theme(driver, colours)
                    driver.get(address)
                    # The site remembers the theme of a first visit.
                    driver.execute_script("try { localStorage.clear() } catch { }")
                    driver.get(address)
                    settle(driver, name)
                    where = f"{name}, {width} px, {colours}"
                    severe = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
                    mistakes += [f"{where}: {message}" for message in severe]
                    across = driver.execute_script("return document.documentElement.scrollWidth")
                    if across > width:
                        mistakes.append(f"{where}: {across} px wide")
                    weak = [(round(ratio, 2), text) for ratio, text in contrasts(driver) if ratio < LEAST]
                    mistakes += [f"{where}: contrast {ratio} of {text!r}" for ratio, text in weak[:5]]
                    hosts = set(driver.execute_script(HOSTS))
                    mistakes += [f"{where}: loads from {host}" for host in hosts if host and not host.startswith("127.0.0.1")]
                    whole_page(driver, out / f"{name}-{width}-{colours}.png")
            print(name, flush=True)
    for line in mistakes:
        print(line)
    return 1 if mistakes else 0


def settle(driver: Any, name: str) -> None:
    """The explorer answers in steps; the others are there when they are loaded."""
    import time

    ready = "const r = document.getElementById('result'); return !r || r.ariaBusy === 'false'"
    for _ in range(200):
        if driver.execute_script(ready):
            break
        time.sleep(0.1)
    time.sleep(0.5 if name != "explorer" else 0.1)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "screens")))
