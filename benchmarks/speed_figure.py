"""Draw the results of `speed.py`: ratios against their bars, rows a second by engine, growth with n and d."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def draw_figure(found: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "dperm"
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    ratios = {"private step /\ntwo products": (found["step"]["ratio"], 1.0)}
    if "ratio to dense" in found["fit"]:
        ratios["Adult fit /\nscikit-learn dense"] = (found["fit"]["ratio to dense"], 1.5)
        ratios["Adult fit /\nscikit-learn CSR"] = (found["fit"]["ratio to CSR"], 1.5)
    left.bar(list(ratios), [value for value, _ in ratios.values()], color="#4477aa")
    for place, (_, bar) in enumerate(ratios.values()):
        left.hlines(bar, place - 0.45, place + 0.45, color="#aa3377", linestyle="--")
    left.set_title("seconds, private / non-private (dashed: the bar)", fontsize=9)
    left.tick_params(axis="x", labelsize=7)
    speeds = found["engines"]["rows per second"]
    middle.barh(list(speeds)[::-1], [value / 1e6 for value in speeds.values()][::-1], color="#228833")
    middle.set_title(f"million rows a second, d = {found['engines']['d']}", fontsize=9)
    middle.tick_params(labelsize=7)
    for name, style in (("n", "o-"), ("d", "s--")):
        grown = found["growth"][name]
        sizes = [size / grown["sizes"][0] for size in grown["sizes"]]
        right.loglog(sizes, grown["seconds"], style, label=f"{name}: {grown['slope']:.2f}")
    right.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    right.minorticks_off()
    right.set_title("seconds of a step as n or d grows (log-log slope)", fontsize=9)
    right.set_xlabel("times the smallest size", fontsize=8)
    right.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw_figure(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[1]).with_suffix(".svg"))
