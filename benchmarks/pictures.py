"""Take the pictures of the README and of `docs/`: pages of Loupe in a headless Chromium.

    python -m benchmarks.pictures [--out docs/images]

Builds the demonstration, and its rewrites once more as a dataset that people review, and starts
Label Studio. Takes about five minutes. `docs/scale.svg` is drawn by `benchmarks.scale_model`.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from loupe.services.credentials import load_credentials
from loupe.services.process import free_port

_REVIEWED = """
dataset = "street"
seed = 7
identities_per_source = 2
gate = "required"

[[sources]]
name = "people"
format = "cuhk-pedes"
annotations = "{world}/cuhk-pedes-demo/reid_raw.json"
images = "{world}/cuhk-pedes-demo/images"
granularity = "coarse"
licence = "CC0-1.0"
"""
_SUBMIT = "[aria-label='Submit current annotation']"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder) / "home"
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        loupe(home, "demo")
        explore(home, browser.new_page(viewport={"width": 1400, "height": 860}), out)
        (board,) = (home / "leaderboards").glob("*/leaderboard.html")
        photograph(browser, board, out / "leaderboard.webp", height_px=620)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        try:
            open_task(home, page)
            keep(page, out / "labelling-page.webp")
            shown = browser.new_page(viewport={"width": 1200, "height": 760})
            open_lead_page(home, page.url, shown)
            keep(shown, out / "lead-page.webp")
        finally:
            loupe(home, "down")


def loupe(home: Path, *arguments: object) -> Any:
    """Run a command on a home; return what it prints as JSON."""
    command = [sys.executable, "-m", "loupe.flows.cli.main", *map(str, arguments), "--json"]
    environment = os.environ | {"LOUPE_HOME": str(home)}
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


def explore(home: Path, page: Page, out: Path) -> None:
    """Open the explorer, and take a picture of its grid with the map, and of a decision."""
    port = free_port()
    command = [sys.executable, "-m", "loupe.flows.cli.main", "explore", "ufine3c-demo"]
    process = subprocess.Popen(
        [*command, "--no-browser", "--port", str(port)],
        env=os.environ | {"LOUPE_HOME": str(home)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stderr or ()
        key = next(line for line in said if "the key is" in line).split()[-1]
        page.set_default_timeout(120_000)
        page.goto(f"http://127.0.0.1:{port}")
        page.fill("input[name=key]", key)
        page.press("input[name=key]", "Enter")
        page.get_by_role("button", name="Dismiss").click()
        page.get_by_text("Embed", exact=True).click()
        page.get_by_text("Included by filters").wait_for()
        keep(page, out / "explorer.webp")
        page.get_by_text("Embed", exact=True).click()
        for photo in page.locator("img[src*='/images/sample/']").all()[:3]:
            photo.click()
        page.get_by_placeholder("Assign tag to selection").fill("odd")
        page.keyboard.press("Enter")
        page.get_by_text("Menu", exact=True).click()
        page.get_by_text("Plugins", exact=True).click()
        page.get_by_text("Decide in Loupe").click()
        form = page.get_by_role("dialog")
        form.locator("input").nth(1).fill("not a photograph of a street")
        form.locator("input").nth(2).fill("odd")
        form.get_by_role("button", name="Execute").click()
        form.get_by_text("not decided yet").wait_for()
        keep(page, out / "explorer-decision.webp")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def open_task(home: Path, page: Page) -> None:
    """Have people review rewrites, and open the first as an annotator."""
    ports = {"label-studio": free_port(), "blobs": free_port()}
    options = [f"--{name}-port={port}" for name, port in ports.items()]
    loupe(home, "up", "--without", "prefect", *options)
    loupe(home, "annotator", "add", "Ann")
    config = home / "street.toml"
    (world,) = (home / "demonstration").glob("people-*")
    config.write_text(_REVIEWED.format(world=world), encoding="utf-8")
    loupe(home, "run", "build-ufine3c", "--config", config)
    account = loupe(home, "annotator", "show", "Ann", "--reveal")
    log_in(page, account["address"], account["login"], account["password"])
    page.locator(_SUBMIT).wait_for(timeout=120_000)
    page.locator(".lsf-modal-ls__content").wait_for()
    page.keyboard.press("Escape")


def open_lead_page(home: Path, address: str, page: Page) -> None:
    """Open the lead's page on the Label Studio that has `address`."""
    account = load_credentials(home)
    password = account.label_studio_password.get_secret_value()
    place = urljoin(address, "/user/login/?next=/lead/")
    log_in(page, place, account.label_studio_email, password)
    page.get_by_role("heading", name="Questions").wait_for()


def log_in(page: Page, address: str, login: str, password: str) -> None:
    """Open an address of Label Studio, and log in."""
    page.goto(address)
    page.fill("input[name=email]", login)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")


def photograph(browser: Browser, page: Path, out: Path, *, height_px: int) -> None:
    """Save a picture of a file that a browser shows."""
    shown = browser.new_page(viewport={"width": 1200, "height": height_px})
    shown.goto(page.as_uri())
    keep(shown, out)


def keep(page: Page, path: Path) -> None:
    """Save a picture of a page once its images are shown."""
    page.wait_for_timeout(3000)
    taken = Image.open(BytesIO(page.screenshot()))
    taken.convert("RGB").save(path, quality=82, method=6)
    print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
