"""`dperm explore`: a page on this machine where a person moves ε, δ, n, d, relation and model and sees what follows.

It listens on the loopback address only, answers GET only, refuses requests whose Host or Origin is another one (a page of another
site cannot use it, whatever name it resolves to here), sends a content-security policy, and loads nothing from elsewhere. All
numbers come from `dperm.estimators.outlook`, the same function that `dperm plan` prints.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from dperm.estimators import outlook as advice
from dperm.privacy import RELATIONS

ASSETS = {
    "/": ("explorer.html", "text/html; charset=utf-8"),
    "/explorer.js": ("explorer.js", "text/javascript; charset=utf-8"),
    "/explorer.css": ("explorer.css", "text/css; charset=utf-8"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
LONGEST_QUERY = 500
CURVE_POINTS = 13


def numbers(query: Mapping[str, list[str]]) -> dict[str, Any]:
    """The controls' values, checked: every mistake is a sentence."""
    known = {"epsilon", "delta", "n", "d", "relation", "model", "target_risk"}
    if set(query) - known or any(len(values) != 1 for values in query.values()):
        raise ValueError(f"Expected each of {', '.join(sorted(known))} at most once, found other parameters.")
    found: dict[str, Any] = {"relation": "replace-one", "model": "LogisticRegression"}
    for name, values in query.items():
        text = values[0]
        if name in ("relation", "model"):
            found[name] = text
        elif name in ("n", "d"):
            if not (text.isascii() and text.isdigit() and len(text) <= 12):
                raise ValueError(f"Expected a whole number for {name}, found {text[:20]!r}.")
            found[name] = int(text)
        else:
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise ValueError(f"Expected a number for {name}, found {text[:20]!r}.")
            found[name] = value
    missing = {"epsilon", "n", "d"} - set(found)
    if missing:
        raise ValueError(f"Expected {', '.join(sorted(missing))}, found none.")
    if not 1e-3 <= found["epsilon"] <= 50:
        raise ValueError(f"Expected 0.001 ≤ epsilon ≤ 50, found {found['epsilon']:g}. More is hardly private.")
    if not 10 <= found["n"] <= 10**9 or not 1 <= found["d"] <= 10**5:
        raise ValueError("Expected 10 ≤ n ≤ 1,000,000,000 and 1 ≤ d ≤ 100,000, found others.")
    if advice.named(found["model"]) not in advice.BOUNDED:
        raise ValueError(f"Expected a model in {', '.join(advice.BOUNDED)}, found {found['model']!r}, whose risk has no bound.")
    if found["relation"] not in RELATIONS:
        raise ValueError(f"Expected relation in {', '.join(RELATIONS)}, found {found['relation'][:30]!r}.")
    return found


@functools.lru_cache(maxsize=256)
def answer(**values: Any) -> dict[str, Any]:
    """What the page shows for these values."""
    return advice.advise(**values, planned=False)


@functools.lru_cache(maxsize=256)
def curve(**values: Any) -> dict[str, Any]:
    """Predicted risk of every mechanism against ε, the other values kept."""
    low, high = values["epsilon"] / 8, values["epsilon"] * 8
    places = [low * (high / low) ** (k / (CURVE_POINTS - 1)) for k in range(CURVE_POINTS)]
    rows = []
    for epsilon in places:
        kept = {key: values.get(key) for key in ("delta", "relation")}
        fit = advice.declared(values["model"], values["n"], values["d"], epsilon=epsilon, **kept)
        rows.append(advice.predicted_risks(fit.problem, fit.shape, fit.target))
    return {"epsilon": places, "risks": {name: [row[name] for row in rows] for name in advice.RISK_NAMES}}


class Handler(BaseHTTPRequestHandler):
    """One request. Nothing in it comes from a file that the client names."""

    server_version = "dperm"
    sys_version = ""
    certificate: ClassVar[Any] = None
    lock: ClassVar[Any] = threading.Lock()

    def do_GET(self) -> None:
        if not self._local():
            self._send(403, "text/plain; charset=utf-8", b"Expected a request from this machine's own page.\n")
            return
        address = urlsplit(self.path)
        if len(address.query) > LONGEST_QUERY:
            self._send(414, "text/plain; charset=utf-8", b"Expected a shorter query.\n")
        elif address.path in ASSETS:
            name, kind = ASSETS[address.path]
            self._send(200, kind, files("dperm.report").joinpath("assets", name).read_bytes())
        elif address.path in ("/api/advice", "/api/curve"):
            self._api(answer if address.path == "/api/advice" else curve, address.query)
        elif address.path == "/favicon.ico":
            self._send(204, "image/x-icon", b"")
        elif address.path == "/api/model":
            self._json(200, {"fitted": self.certificate is not None})
        elif address.path == "/report" and self.certificate is not None:
            from dperm.pages.page import certificate_page

            self._send(200, "text/html; charset=utf-8", certificate_page(self.certificate).encode(), REPORT_POLICY)
        else:
            self._send(404, "text/plain; charset=utf-8", b"Expected a page of the explorer, found none at this address.\n")

    def do_HEAD(self) -> None:
        self._send(405, "text/plain; charset=utf-8", b"")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD

    def _local(self) -> bool:
        port = self.server.server_address[1]
        names = {f"127.0.0.1:{port}", f"localhost:{port}"}
        if self.headers.get("Host", "") not in names:
            return False
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{name}" for name in names}:
            return False
        return self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _api(self, function: Any, query: str) -> None:
        try:
            values = numbers(parse_qs(query, max_num_fields=10))
            with self.lock:  # one calculation at a time: the caches are shared, the processor too
                found = function(**values)
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            self._json(400, {"error": str(error)})
            return
        self._json(200, found)

    def _json(self, status: int, value: Any) -> None:
        self._send(status, "application/json", json.dumps(value, allow_nan=False).encode())

    def _send(self, status: int, kind: str, body: bytes, policy: str = POLICY) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the page moved on or was closed
                self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet: the terminal belongs to the person."""


def serve(port: int = 0, model: Path | None = None) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet running; `model` is the folder of a fit, whose report is shown too."""
    certificate = None
    if model is not None:
        from dperm.tables.json_files import read_json
        from dperm.walk.certificate import Certificate

        file = model / "certificate.json" if model.is_dir() else model
        read_json(file)
        certificate = Certificate.load(file)
        verdict = certificate.verify(allow_seeded=True, accept_assumptions=True)
        if not verdict.ok:
            raise ValueError(f"Expected a certificate that verifies in {file}, found: {verdict.reasons[0]}.")
    handler = type("ExplorerHandler", (Handler,), {"certificate": certificate})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    return server
