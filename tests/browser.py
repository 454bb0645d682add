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
    """A screenshot of the whole page, not only of what fits."""
    import base64

    found = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"})
    path.write_bytes(base64.b64decode(found["data"]))
