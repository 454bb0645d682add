"""`dperm --version`: this version, the commit it was built from, and what it stands on."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib import metadata
from pathlib import Path

DEPENDENCIES = ("numpy", "scipy", "scikit-learn", "dp-accounting", "randomgen", "pyarrow", "typer", "opendp", "numba", "torch")


def version_lines() -> list[str]:
    """The first line is `dperm VERSION (commit …)`; then Python and every dependency that is installed."""
    lines = [f"dperm {metadata.version('dperm')} (commit {commit()})", f"python {platform.python_version()}"]
    for name in DEPENDENCIES:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return lines


def commit() -> str:
    """The commit of the checkout this package runs from, or the one pip recorded; "unknown" otherwise."""
    root = Path(__file__).resolve().parents[3]
    if (root / ".git").exists() and (root / "src" / "dperm").is_dir():
        try:
            found = subprocess.run(
                ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=5, check=True
            )
            return found.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    try:
        record = json.loads(metadata.distribution("dperm").read_text("direct_url.json") or "{}")
        return str(record["vcs_info"]["commit_id"])[:12]
    except (metadata.PackageNotFoundError, KeyError, TypeError, ValueError):
        return "unknown"
