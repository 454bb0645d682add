"""The explorer: its server's refusals, and the page in a real browser compared with the Python API."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import dperm
from browser import chromium, contrasts, resize, theme, whole_page
from dperm.estimators import outlook as advice
from dperm.mechanisms import Gradient
from dperm.report.explorer import answer, bounds, curve, glance, numbers, serve


@contextmanager
def running(model=None):
    server = serve(0, model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def request(port: int, path: str, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{port}", **headers})
    reply = connection.getresponse()
    found = reply.status, dict(reply.getheaders()), reply.read()
    connection.close()
    return found


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    X = np.linspace(-1, 1, 300).reshape(-1, 1)
    model = dperm.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=2), random_state=0)
    folder = tmp_path_factory.mktemp("fitted")
    model.fit(X, X[:, 0] > 0).save(folder)
    return folder


def test_only_the_pages_own_requests_are_answered():
    with running() as port:
        status, headers, body = request(port, "/")
        assert status == 200 and b"Choose a privacy budget" in body
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
        for bad in (
            {"Host": "evil.example"},
            {"Host": f"evil.example:{port}"},
            {"Host": ""},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            assert request(port, "/", **bad)[0] == 403, bad
        assert request(port, "/", Host=f"localhost:{port}")[0] == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            assert request(port, "/api/model", method)[0] == 405
        for path in ("/../../etc/passwd", "/assets/explorer.js", "/%2e%2e/", "/report", "//explorer.js/"):
            assert request(port, path)[0] == 404, path
        assert request(port, "/api/advice?" + "x" * 600)[0] == 414


def test_it_binds_to_loopback_only():
    server = serve(0)
    try:
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.server_close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"epsilon": ["nan"], "n": ["100"], "d": ["2"]}, "Expected a number for epsilon"),
        ({"epsilon": ["1"], "n": ["1e9"], "d": ["2"]}, "whole number for n"),
        ({"epsilon": ["1"], "n": ["100"], "d": ["9999999"]}, "1 ≤ d"),
        ({"epsilon": ["1"], "n": ["100"]}, "Expected d"),
        ({"epsilon": ["1", "2"], "n": ["100"], "d": ["2"]}, "at most once"),
        ({"epsilon": ["1"], "n": ["100"], "d": ["2"], "relation": ["<b>"]}, "relation in"),
        ({"epsilon": ["99"], "n": ["100"], "d": ["2"]}, "epsilon ≤ 50"),
    ],
)
def test_bad_numbers_are_refused_with_a_sentence(query, words):
    with pytest.raises(ValueError, match=words):
        numbers(query)


def test_the_answers_are_those_of_the_api():
    with running() as port:
        text = "epsilon=2&n=5000&d=4&delta=1e-6&relation=zero-out&model=Ridge&target_risk=0.02"
        expected = json.loads(json.dumps(advice.advise(
            n=5000, d=4, epsilon=2.0, delta=1e-6, relation="zero-out", model="Ridge", target_risk=0.02, planned=False
        )))  # fmt: skip
        status, _, body = request(port, "/api/plan?" + text)
        plan = json.loads(body)
        assert status == 200 and set(plan) - set(expected) == {"python", "command"}
        loss = plan["expected"]
        assert loss["score"] == "R²" and loss["low"] <= loss["value"] <= loss["high"]
        assert json.loads(request(port, "/api/glance?" + text)[2]) == plan
        assert all(plan[name] == expected[name] for name in plan if name in expected)
        bounds = json.loads(request(port, "/api/bounds?" + text)[2])
        assert bounds["predicted_risk"] == expected["predicted_risk"] and bounds["alternatives"] == expected["alternatives"]
        sizes = {name: size for name, size in expected["sample_size"].items() if name != "target_risk"}
        assert bounds["sample_size"] == sizes
        for bad in ("epsilon=-1&n=10&d=1", "epsilon=1&n=10&d=1&model=os.system"):
            for path in ("plan", "bounds", "curve"):
                assert request(port, f"/api/{path}?{bad}")[0] == 400


@pytest.mark.parametrize("model", advice.MODELS)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_every_model_is_answered_and_can_be_taken_along(model, relation, capsys):
    from typer.testing import CliRunner

    from dperm.cli import app

    values = numbers({"epsilon": ["2"], "n": ["5000"], "d": ["3"], "model": [model], "relation": [relation], "delta": ["1e-6"]})
    if model == "MedianEstimator":
        values["delta"] = 0.0  # it is pure
    found = answer(**values)
    exec(compile(found["python"], "copied", "exec"), {})
    assert capsys.readouterr().out.strip() == found["explanation"].strip()
    words = found["command"].split()
    assert words[0] == "dperm"
    told = json.loads(CliRunner().invoke(app, [*words[1:], "--json"], catch_exceptions=False).stdout)
    assert told["mechanism"] == found["mechanism"] and told["epsilon"] == 2.0 and told["relation"] == relation
    if model not in advice.BOUNDED:
        assert curve(**values)["risks"] == {name: [] for name in advice.RISK_NAMES}


def test_a_glance_calibrates_nothing_and_agrees_with_the_plan(monkeypatch):
    """The plan of objective perturbation takes up to half a second; a slider's answer must not wait for it."""
    from dperm.privacy import objective_event

    given = {"epsilon": "1.237", "n": "54321", "d": "7", "relation": "zero-out", "model": "LogisticRegression"}
    values = numbers({name: [value] for name, value in given.items()})
    with monkeypatch.context() as patch:
        patch.setattr(objective_event.ObjectiveEvent, "delta", lambda *_: pytest.fail("the glance calibrated"))
        told = glance(**values)
    full = answer(**values)
    assert told["explanation"] is None and full["explanation"]
    assert all(full[name] == told[name] for name in told if name not in ("explanation", "warnings"))
    assert full["expected"]["sentence"].startswith("Expect about")


def test_a_tampered_certificate_is_not_shown(fitted, tmp_path):
    text = (fitted / "certificate.json").read_text().replace('"epsilon": 1.0', '"epsilon": 0.1', 1)
    (tmp_path / "certificate.json").write_text(text)
    with pytest.raises(ValueError, match="verifies"):
        serve(0, tmp_path)


def test_every_control_in_a_real_browser(fitted, tmp_path):
    """Load, move each control, read the numbers and compare them with the Python API; then the report of the fitted model."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait

    with running(fitted) as port, chromium(tmp_path / "profile") as driver:
        driver.get(f"http://127.0.0.1:{port}/")

        def values() -> dict[str, str]:
            names = ("epsilon", "delta", "n", "d", "relation", "model", "target_risk")
            return {name: driver.find_element(By.ID, name).get_property("value") for name in names}

        def settled() -> None:
            script = "const r = document.getElementById('result'); "
            script += "return typeof query === 'function' && r.ariaBusy === 'false' && r.dataset.shown === query()"
            WebDriverWait(driver, 90, 0.1).until(lambda d: d.execute_script(script))

        def write(name: str, text: str) -> None:
            script = "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            driver.execute_script(script + " e.dispatchEvent(new Event('input'))", name, text)

        def agrees() -> None:
            settled()
            found = numbers({key: [value] for key, value in values().items() if value})
            expected = answer(**found) | bounds(**found)
            assert driver.find_element(By.ID, "status").text == ""
            assert driver.find_element(By.ID, "mechanism").text == expected["mechanism"]
            assert driver.find_element(By.ID, "expected-sentence").text == expected["expected"]["sentence"]
            assert driver.find_element(By.ID, "sentence").text == expected["odds_sentence"]
            shown = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in
                     driver.find_elements(By.CSS_SELECTOR, "#risks tbody tr")]  # fmt: skip
            assert [row[0] for row in shown] == list(expected["predicted_risk"])
            for name, risk, size in shown:
                bound = expected["predicted_risk"][name]
                assert risk == "no bound" if bound is None else float(risk) == pytest.approx(bound, rel=6e-3)
                need = expected["sample_size"][name]
                assert size == "no bound" if need is None else int(size.replace(",", "")) == need
            after = driver.find_elements(By.CSS_SELECTOR, "#beliefs tbody tr")[-1].text.split("\n")[-1]
            assert f"{100 * expected['odds']['beliefs'][-1]['after_at_most']:.1f}" in after

        # The cheapest model first: one calculation per control, not a benchmark.
        settled()
        assert values()["n"] == "300" and values()["d"] == "1" and values()["model"] == "LogisticRegression"  # the fitted model's
        Select(driver.find_element(By.ID, "model")).select_by_visible_text("LinearRegression")
        agrees()
        write("epsilon-slider", "30")
        assert values()["epsilon"] == "2"
        agrees()
        write("n-slider", "500")
        assert values()["n"] == "100000"
        agrees()
        write("d", "25")
        agrees()
        Select(driver.find_element(By.ID, "delta")).select_by_value("1e-8")
        Select(driver.find_element(By.ID, "relation")).select_by_value("zero-out")
        write("target_risk", "0.05")
        agrees()
        risks = curve(**numbers({key: [value] for key, value in values().items() if value}))["risks"]
        drawn = driver.find_elements(By.CSS_SELECTOR, "#chart polyline")
        assert len(drawn) == sum(any(value is not None for value in line) for line in risks.values())
        write("n", "5")
        settled()
        assert "Expected 10 ≤ n" in driver.find_element(By.ID, "status").text
        for part in ("plan", "bounds"):  # nothing of the answer before stands under an error
            assert not driver.find_element(By.ID, part).is_displayed()
        write("n", "5000")
        settled()
        assert driver.find_element(By.ID, "plan").is_displayed() and driver.find_element(By.ID, "bounds").is_displayed()
        for width in (390, 1280):
            for name in ("light", "dark"):
                resize(driver, width)
                theme(driver, name)
                assert driver.execute_script("return document.documentElement.scrollWidth") <= width
                assert min(contrasts(driver))[0] >= 4.5, min(contrasts(driver))
                whole_page(driver, tmp_path / f"explorer-{width}-{name}.png")
        slider = driver.find_element(By.ID, "epsilon-slider")  # by keyboard
        before = values()["epsilon"]
        slider.send_keys(Keys.ARROW_RIGHT)
        assert float(values()["epsilon"]) > float(before)
        agrees()
        Select(driver.find_element(By.ID, "model")).select_by_visible_text("MeanEstimator")
        settled()
        assert driver.find_element(By.ID, "mechanism").text == "mean"
        held, address = values(), driver.current_url
        driver.get("about:blank")
        driver.get(address)  # a shared address brings the controls back
        settled()
        assert values() == held
        button = driver.find_element(By.ID, "copy-command")
        button.click()
        WebDriverWait(driver, 10, 0.05).until(lambda d: button.text in ("Copied", "Press Ctrl-C"))
        assert driver.find_element(By.ID, "command").text == answer(**numbers({k: [v] for k, v in held.items() if v}))["command"]
        severe = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert all("400" in message for message in severe), severe  # the refused n = 5
        hosts = driver.execute_script("return performance.getEntriesByType('resource').map(r => new URL(r.name).host)")
        assert set(hosts) == {f"127.0.0.1:{port}"}
        link = driver.find_element(By.CSS_SELECTOR, "#fitted a")
        assert link.is_displayed()
        driver.get(link.get_attribute("href"))
        assert "NOT PRIVATE" in driver.find_element(By.TAG_NAME, "main").text
