"""`dperm explore`: a local page to choose ε by what it means."""

from __future__ import annotations

from pathlib import Path

import typer

from dperm.commands.earlier import told_beside
from dperm.commands.shared import JSON_OPTION, say, show


def explore(
    model: Path | None = typer.Argument(None, help="Folder of a fit (or its certificate.json), to show its report too."),
    port: int = typer.Option(0, min=0, max=65535, help="Port on this machine; 0 takes a free one."),
    browser: bool = typer.Option(True, help="Open the page in a browser."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Serve a page where you move ε, δ, n, d, relation and model and see risk, sample size, mechanism and odds.

    It listens on 127.0.0.1 only, reads no data and loads nothing from the network. Stop it with Ctrl-C.

    Example: dperm explore dperm-model
    """
    from dperm.report.explorer import serve

    try:
        server = serve(port, model, told_beside)
    except OSError as error:
        raise ValueError(f"Expected a free port, found {port} in use: {error.strerror}. Pass --port 0.") from error
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    if as_json:
        show({"address": address}, True)
    else:
        say(f"explorer at {address}  (Ctrl-C ends it)")
    if browser:
        import webbrowser

        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("")
    finally:
        server.server_close()
