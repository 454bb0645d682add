"""Run the notebooks of docs/notebooks and keep their outputs: `make notebooks`. The test suite runs them in a reduced form.

    python scripts/run_notebooks.py            # all of them
    python scripts/run_notebooks.py auditing   # one
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"


def run(file: Path) -> None:
    """Execute in place; what depends on the machine (times, versions) is left out, so that runs differ only where noise does."""
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}, record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, file)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            print(path.stem, flush=True)
            run(path)
