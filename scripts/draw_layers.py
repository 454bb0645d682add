"""Draw the rooms of the source and their imports into docs/architecture.md, between its two marks.

    python scripts/draw_layers.py            writes the picture
    python scripts/draw_layers.py --check    exits with 1 where the page shows another one
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "house"))

from test_layers import ORDER, imported, modules  # noqa: E402

PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- rooms: drawn by scripts/draw_layers.py -->", "<!-- end of rooms -->"


def picture() -> str:
    """One line per room, the top one first: its modules and the rooms that they import."""
    rooms: dict[str, set[str]] = {name: set() for name in ORDER}
    sizes = dict.fromkeys(ORDER, 0)
    for name in modules():
        if name == "__init__":
            continue
        home = name.split(".")[0]
        sizes[home] += 1
        rooms[home] |= {target.split(".")[0] for target in imported(name)} - {home, ""}
    shown = [name for name in reversed(ORDER) if name != "__main__"]
    width = max(map(len, shown))
    lines = [f"{name:<{width}} {sizes[name]:>3}   {' '.join(sorted(rooms[name], key=ORDER.index))}".rstrip() for name in shown]
    return "\n".join([START, "```text", f"{'room':<{width}} modules   imports", *lines, "```", END])


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    drawn = before + picture() + after
    if "--check" in sys.argv:
        sys.exit(drawn != text)
    PAGE.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
