"""The report opened from disk in Chromium."""

import re
from pathlib import Path
from typing import Any

import pytest

from loupe.release.report.writing import write_report
from tests.chromium import all_pictures_show
from tests.release.export.kinds import released
from tests.release.report.hostile import TEXTS, hostile_release

pytestmark = pytest.mark.browser

HOSTILE = "hostile"
PAGES = ("contrasts", "street", HOSTILE)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of reports on releases of several kinds, and of one with hostile texts."""
    folders = {kind: released(kind, tmp_path_factory.mktemp(kind)).folder for kind in PAGES[:-1]}
    folders[HOSTILE] = hostile_release(tmp_path_factory.mktemp(HOSTILE))
    return {
        kind: write_report(folder, folder.parent / "report").folder / "index.html"
        for kind, folder in folders.items()
    }


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_whole_without_a_script_and_fits_a_phone(
    kind: str, reports: dict[str, Path], browser: Any
) -> None:
    for width in (360, 1280):
        page = browser.new_page(viewport={"width": width, "height": 800})
        messages: list[str] = []
        requested: list[str] = []
        page.on("console", lambda message, to=messages: to.append(message.text))
        page.on("request", lambda request, to=requested: to.append(request.url))
        page.goto(reports[kind].as_uri())
        page.evaluate("for (const one of document.images) one.loading = 'eager'")
        assert all_pictures_show(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelectorAll('script').length") == 0
        assert page.evaluate("window.broken") is None
        assert page.evaluate(CONTRAST) == []
        assert page.locator("#gallery li").count() > 0
        for link in page.locator("nav.views a").all():
            assert page.locator(str(link.get_attribute("href"))).is_visible()
        assert [url for url in requested if not url.startswith(("file://", "data:"))] == []
        assert messages == []
        page.close()


def test_hostile_texts_are_shown_as_text(reports: dict[str, Path], browser: Any) -> None:
    page = browser.new_page()
    page.goto(reports[HOSTILE].as_uri())
    shown = page.locator("#gallery .snippet").all_text_contents()
    wanted = [re.sub(r"\s+", " ", text)[:100].strip() for text in TEXTS]
    assert sorted(re.sub(r"\s+", " ", text)[:100].strip() for text in shown) == sorted(wanted)
    page.close()


CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const channel = (value) =>
    value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("main *, header *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest("svg")) continue;
    const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
}"""
