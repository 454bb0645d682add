"""The pictures of the home page: the first screen of the report of a private logistic regression of Adult, light and dark.

    python scripts/report_picture.py      # writes docs/images/report-light.png and report-dark.png
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "helpers"), str(ROOT / "benchmarks")]
CLIP = {"x": 0, "y": 0, "width": 1265, "height": 1240, "scale": 0.8}


def main() -> None:
    from accuracy_ours import load

    import dperm
    from browser import chromium, resize, theme
    from dperm.evaluation.evaluate import evaluate

    schema, train, test, *_ = load("adult")
    with tempfile.TemporaryDirectory() as held, chromium(Path(held) / "chromium") as driver:
        page = Path(held) / "report.html"
        model = dperm.LogisticRegression(epsilon=1.0, schema=schema).fit(train)
        model.report(page, evaluation=evaluate(model, test, epsilon=1.0))
        resize(driver, 1265, 1240)
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        for colours in ("light", "dark"):
            theme(driver, colours)
            driver.get(page.as_uri())
            taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": CLIP})
            (ROOT / "docs" / "images" / f"report-{colours}.png").write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    main()
