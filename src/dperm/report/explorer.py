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
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, TypedDict, Unpack, cast
from urllib.parse import parse_qs, urlsplit

from dperm.choose.odds import odds, odds_sentence
from dperm.choose.risks import RISK_NAMES, predicted_risks, sample_sizes
from dperm.estimators import outlook as advice
from dperm.estimators.model_file import certified_model, verified_certificate
from dperm.mechanisms.scaled.noise_ratio import expected_noise_ratio
from dperm.pages.page import certificate_page, report_page
from dperm.pages.subject import from_certificate, subject_of, upward
from dperm.privacy import RELATIONS
from dperm.tables.json_files import in_folder

if TYPE_CHECKING:
    from dperm.estimators.declaration import Declaration
    from dperm.pages.subject import Earlier
    from dperm.walk.certificate import Certificate
    from dperm.walk.claims import Claim

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
# What every answer tells the browser: guess no type, show it in no frame, name it to nobody, keep no copy.
GUARDED = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"}
GUARDED |= {"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"}
LONGEST_QUERY = 500
CURVE_POINTS = 13


class Controls(TypedDict):
    """Where the sliders and menus of the page stand."""

    epsilon: float
    n: int
    d: int
    relation: str
    model: str
    delta: NotRequired[float]
    target_risk: NotRequired[float]


def numbers(query: Mapping[str, list[str]]) -> Controls:
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
    found["model"] = advice.named(found["model"])
    if found["relation"] not in RELATIONS:
        raise ValueError(f"Expected relation in {', '.join(RELATIONS)}, found {found['relation'][:30]!r}.")
    return cast(Controls, found)


def declared(values: Controls) -> Declaration:
    """The fit that the controls describe."""
    size, epsilon, delta = (values["n"], values["d"]), values["epsilon"], values.get("delta")
    return advice.declared(values["model"], *size, epsilon=epsilon, delta=delta, relation=values["relation"])


SLOW = "scaled-objective"  # its plan calibrates by quadrature, for up to half a second


@functools.lru_cache(maxsize=4096)
def glance(**values: Unpack[Controls]) -> dict[str, object]:
    """What follows a slider at once: what it means for one person, the mechanism, and the loss that is expected. A plan that
    takes long is left to `answer`, which the page asks next; all others are made here, so that refusals are known."""
    fit = declared(values)
    name = getattr(fit.mechanism, "name", fit.mechanism)
    if name != SLOW:
        return answer(**values)
    target = fit.target
    told = {"mechanism": name, "epsilon": target.epsilon, "odds": odds(target.epsilon), "explanation": None, "warnings": []}
    told["odds_sentence"] = odds_sentence(target.epsilon, target.delta, target.relation, target.unit)
    return told | expected(values, fit) | {"python": as_python(values), "command": as_command(values)}


def expected(values: Controls, fit: Declaration) -> dict[str, object]:
    """The noise ratio, and what such a ratio cost on the benchmark tables."""
    spoken = values["model"] in advice.BOUNDED and fit.target.delta > 0
    ratio = expected_noise_ratio(fit.problem, fit.shape, fit.target) if spoken else None
    return {"noise_ratio": ratio, "expected": advice.expected_of(fit)}


@functools.lru_cache(maxsize=4096)
def answer(**values: Unpack[Controls]) -> dict[str, object]:
    """What the page shows at once: the plan, what it means for one person, and how to ask for it elsewhere."""
    fit = declared(values)
    plan = fit.plan()
    return advice.plan_facts(fit, plan) | expected(values, fit) | {"python": as_python(values), "command": as_command(values)}


@functools.lru_cache(maxsize=1024)
def bounds(**values: Unpack[Controls]) -> advice.Bounds:
    """Worst-case risks and the records that a risk needs; they may take seconds, and the page does not wait for them."""
    fit, goal = declared(values), values.get("target_risk")
    found = advice.outlook(fit, fit.plan(), planned=False)
    known = goal is not None and values["model"] in advice.BOUNDED
    found["sample_size"] = sample_sizes(fit.problem, fit.shape, fit.target, float(goal or 0.0)) if known else None
    return found


@functools.lru_cache(maxsize=256)
def curve(**values: Unpack[Controls]) -> dict[str, object]:
    """Predicted risk of every mechanism against ε, the other values kept; no lines where no theorem speaks of the model."""
    low, high = values["epsilon"] / 8, values["epsilon"] * 8
    places = [low * (high / low) ** (k / (CURVE_POINTS - 1)) for k in range(CURVE_POINTS)]
    fits = [declared({**values, "epsilon": epsilon}) for epsilon in places] if values["model"] in advice.BOUNDED else []
    rows = [predicted_risks(fit.problem, fit.shape, fit.target) for fit in fits]
    return {"epsilon": places, "risks": {name: [row[name] for row in rows] for name in RISK_NAMES}}


def as_python(values: Controls) -> str:
    """The same plan in Python; bounds and classes stand for the reader's own."""
    given = {key: values[key] for key in ("epsilon", "delta", "relation") if values.get(key) is not None}
    _, extra, _ = advice.reference(values["model"], dict(given))
    words = ", ".join(f"{key}={value!r}" for key, value in {**given, **extra}.items())
    size = f"n={values['n']}, d={values['d']}"
    nominal = f", nominal_n={values['n']}" if values["relation"] == "add-remove" else ""
    return f"import dperm\n\nmodel = dperm.{values['model']}({words}{nominal})\nprint(model.plan({size}).explain())"


def as_command(values: Controls) -> str:
    """The same for the shell."""
    words = [f"dperm plan --model {values['model']} --n {values['n']} --d {values['d']} --epsilon {values['epsilon']:g}"]
    words += [f"--delta {values['delta']:g}"] if values.get("delta") is not None else []
    return " ".join([*words, f"--relation {values['relation']}"])


def of_model(certificate: Certificate, name: str) -> dict[str, object]:
    """The controls' values for a fitted model."""
    shape = certificate.record["shape"]
    found: dict[str, object] = {"epsilon": float(upward(certificate.epsilon)), "n": shape["n"], "d": max(1, shape["d"])}
    found |= {"relation": certificate.relation, "delta": certificate.delta}
    return {**found, "model": name} if name in advice.MODELS else found


class Handler(BaseHTTPRequestHandler):
    """One request. Nothing in it comes from a file that the client names."""

    server_version = "dperm"
    sys_version = ""
    certificate: ClassVar[object] = None
    page: ClassVar[str] = ""
    title: ClassVar[str] = ""  # of the fitted model, where there is one
    values: ClassVar[dict[str, object]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()
    latest: ClassVar[dict[str, str]] = {}

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
        elif address.path in ("/api/glance", "/api/plan"):
            self._api(glance if address.path == "/api/glance" else answer, address.query)
        elif address.path in ("/api/bounds", "/api/curve"):
            self._slowly(address.path, bounds if address.path == "/api/bounds" else curve, address.query)
        elif address.path == "/favicon.ico":
            self._send(204, "image/x-icon", b"")
        elif address.path == "/api/model":
            self._json(200, {"fitted": self.title, "values": self.values, "models": list(advice.MODELS)})
        elif address.path == "/report" and self.certificate is not None:
            self._send(200, "text/html; charset=utf-8", self.page.encode(), REPORT_POLICY)
        else:
            self._send(404, "text/plain; charset=utf-8", b"Expected a page of the explorer, found none at this address.\n")

    def do_HEAD(self) -> None:
        self._send(405, "text/plain; charset=utf-8", b"")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD

    def _local(self) -> bool:
        port = self.server.server_address[1]  # type: ignore[index]
        names = {f"127.0.0.1:{port}", f"localhost:{port}"}
        if self.headers.get("Host", "") not in names:
            return False
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{name}" for name in names}:
            return False
        return self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _api(self, function: Callable[..., object], query: str) -> None:
        try:
            found = function(**numbers(parse_qs(query, max_num_fields=10)))
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            self._json(400, {"error": str(error)})
            return
        self._json(200, found)

    def _slowly(self, path: str, function: Callable[..., object], query: str) -> None:
        """One long calculation at a time; one that a later move of the page has overtaken is not begun."""
        self.latest[path] = query
        with self.lock:
            if self.latest[path] == query:
                self._api(function, query)
                return
        self._json(409, {"error": "overtaken"})

    def _json(self, status: int, value: object) -> None:
        self._send(status, "application/json", json.dumps(value, allow_nan=False).encode())

    def _send(self, status: int, kind: str, body: bytes, policy: str = POLICY) -> None:
        self.send_response(status)
        own = {"Content-Type": kind, "Content-Length": str(len(body)), "Content-Security-Policy": policy}
        for name, value in {**own, **GUARDED}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the page moved on or was closed
                self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet: the terminal belongs to the person."""


def serve(
    port: int = 0, model: Path | None = None, earlier: Callable[[Path, Claim], Earlier | None] = lambda folder, fit: None
) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, not yet running; `model` is the folder of a fit, whose report is shown too, with what `earlier`
    finds in that folder to have been paid before it."""
    held: dict[str, object] = {"latest": {}, "lock": threading.Lock()}
    if model is not None:
        file = in_folder(model, "certificate.json")
        certificate = verified_certificate(file)
        fitted = certified_model(file, certificate)
        paid = earlier(file.parent, certificate)
        held["certificate"] = certificate
        if fitted is not None:
            held["page"] = report_page(fitted, {}, earlier=paid)
            held["title"] = subject_of(fitted).title
        else:
            held["page"] = certificate_page(certificate, earlier=paid)
            held["title"] = from_certificate(certificate).title
        held["values"] = of_model(certificate, "" if fitted is None else type(fitted).__name__)
    handler = type("ExplorerHandler", (Handler,), held)
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    return server
