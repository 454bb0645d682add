"""A headless Chromium for the tests; absent browsers skip with a reason."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb",
)  # fmt: skip
TALLEST = 16_000


def browser_reason() -> str | None:
    """Why there is no browser here, or None when there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "the package selenium is not installed"
    if not (shutil.which("chromium") or shutil.which("google-chrome")):
        return "no Chromium on this machine (Debian: apt-get install chromium chromium-driver)"
    if not shutil.which("chromedriver"):
        return "no chromedriver on this machine (Debian: apt-get install chromium-driver)"
    return None


@contextmanager
def chromium(profile: Path, width: int = 1200, height: int = 900):
    """A driver with its own empty profile; it is always closed."""
    reason = browser_reason()
    if reason:
        pytest.skip(reason)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        resize(driver, width, height)
        yield driver
    finally:
        driver.quit()


def resize(driver, width: int, height: int = 900) -> None:
    """The size of the page itself, also below what a window may have."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def whole_page(driver, path: Path) -> None:
    """A screenshot of the whole page, not only of what fits; of tall ones the first `TALLEST` pixels, Chromium draws no more."""
    import base64

    page = "const page = document.documentElement; return [page.clientWidth, page.scrollHeight]"
    width, height = driver.execute_script(page)
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST), "scale": 1}
    found = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png", "clip": clip})
    path.write_bytes(base64.b64decode(found["data"]))


def theme(driver, name: str, medium: str = "screen") -> None:
    """The reader's preference, "light" or "dark", as the system would tell it to the page."""
    features = [{"name": "prefers-color-scheme", "value": name}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})


_CONTRASTS = """
const light = c => { const s = c / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
const numbers = text => (text.match(/[\\d.]+/g) || []).map(Number);
const over = (top, below) => { const a = top.length === 4 ? top[3] : 1; return below.map((c, k) => a * top[k] + (1 - a) * c); };
const ground = element => {  // translucent layers, from the first opaque one up
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const c = numbers(getComputedStyle(e).backgroundColor);
    layers.unshift(c);
    if (c.length === 3 || c[3] === 1) break;
  }
  return layers.reduce((below, top) => over(top, below), [255, 255, 255]);
};
const unseen = e => e !== null && (getComputedStyle(e).opacity === '0' || unseen(e.parentElement));
const found = [];
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const style = getComputedStyle(e);
  if (!own || style.visibility === 'hidden' || !e.getClientRects().length || unseen(e) || e.closest('script,style')) continue;
  const below = ground(e), ink = over(numbers(e.closest('svg') ? style.fill : style.color), below);
  const [a, b] = [luminance(ink), luminance(below)].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), e.textContent.trim().slice(0, 40)]);
}
return found;
"""


def contrasts(driver) -> list[tuple[float, str]]:
    """The contrast of every visible text with what lies behind it (WCAG 2), with the beginning of the text."""
    return [(float(ratio), text) for ratio, text in driver.execute_script(_CONTRASTS)]
