"""The report opened from disk in Chromium."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.release.card.facts import texts_sentence, whole_sentence
from loupe.release.report.writing import write_report
from tests.release import ccd_world
from tests.release.export.kinds import released
from tests.release.kinds import ABOUT, built
from tests.release.report.hostile import TEXTS, hostile_release
from tests.release.report.reading import rows_of, rows_with
from tests.release.worlds import store_world

pytestmark = pytest.mark.browser

PAGE_ROWS = 60
WAIT_MS = 20_000
Row = dict[str, Any]


def expect_that(what: Any) -> Any:
    """An assertion of Playwright that waits until it becomes true."""
    from playwright.sync_api import expect

    return expect(what)


class Reported:
    """A release with the report next to it and the rows of the release."""

    def __init__(self, release: Path) -> None:
        self.page = write_report(release, release.parent / "report").folder / "index.html"
        self.rows = rows_of(release)

    def numbers(self, wanted: Callable[[Row], bool]) -> list[int]:
        return [number for number, row in enumerate(self.rows, 1) if wanted(row)]


class View:
    """An open page that records messages and requests of the browser."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        settings = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.messages: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(url)
        if options.get("java_script_enabled", True):
            self.page.wait_for_selector("html[data-ready]")

    def go(self, address: str) -> None:
        """Change the fragment of the URL and wait until its view is shown."""
        self.page.evaluate("address => { location.hash = address; }", address)
        self.settle()

    def settle(self) -> None:
        # `wait_for_function` evaluates a string in the page, which its content policy forbids.
        self.page.wait_for_timeout(60)
        self.page.wait_for_selector("#rows:not([aria-busy])", state="attached")
        if "#/row/" in self.page.url:
            title = re.compile(rf"Row {self.number()} ")
            expect_that(self.page).to_have_title(title, timeout=WAIT_MS)

    def number(self) -> int:
        return int(self.page.url.split("#/row/")[1].split("?")[0])

    def shown(self) -> list[int]:
        """Numbers of the rows on this page of the gallery."""
        return [int(one) for one in self.page.locator("#tiles .number").all_inner_texts()]

    def all_shown(self) -> list[int]:
        """Numbers of the rows on all pages of the gallery, by paging through them."""
        numbers = self.shown()
        while (link := self.page.locator(".bar .pager a[aria-label='next page']")).count():
            link.click()
            self.settle()
            numbers += self.shown()
        return numbers

    def focused(self) -> str:
        return str(
            self.page.evaluate("document.activeElement.id || document.activeElement.tagName")
        )

    def assert_clean(self) -> None:
        """Check that there were no messages and only requests for local files."""
        assert self.messages == []
        assert [url for url in self.requested if not url.startswith(("file://", "data:"))] == []


@pytest.fixture(scope="module")
def ccd(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """A contrastive benchmark of 150 images with searchable texts."""
    home = tmp_path_factory.mktemp("ccd")
    made = ccd_world.benchmark(50)
    anchor = made.groups[0].anchor
    ccd_world.drafted(made.world, anchor, ccd_world.COCO, "一辆红色的公交车", 0, language="zh")
    world = store_world(home / "world", made.world.contents())
    from loupe.release.build import build_release

    built = build_release(world.store, world.blobs, "coco-ccd", "1.0.0", home / "release")
    world.store.close()
    return Reported(built.folder)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reported]:
    """Reports on releases of the other kinds."""
    return {
        kind: Reported(released(kind, tmp_path_factory.mktemp(kind)).folder)
        for kind in ("plain", "street", "tasks")
    }


@pytest.fixture
def open_view(browser: Any) -> Iterator[Callable[..., View]]:
    """Open reports; at the end, check that no page had errors."""
    views: list[View] = []

    def show(report: Reported | Path, address: str = "", **options: Any) -> View:
        page = report.page if isinstance(report, Reported) else report
        views.append(View(browser, page.as_uri() + address, **options))
        return views[-1]

    yield show
    for view in views:
        view.context.close()
    for view in views:
        view.assert_clean()


def contrast(row: Row, name: str) -> str:
    return row["contrast"][name] if row["contrast"] else ""


FILTERS: dict[str, Callable[[Row], bool]] = {
    "": lambda row: True,
    "source=coco": lambda row: row["source"] == "coco",
    "difference=Entity+Type": lambda row: contrast(row, "difference") == "Entity Type",
    "difference=none+%28anchor%29": lambda row: not row["contrast"],
    "difference=Style+%26+Presentation&method=edit": lambda row: (
        contrast(row, "difference") == "Style & Presentation" and contrast(row, "method") == "edit"
    ),
    "source=nowhere": lambda row: False,
    "words=8-8": lambda row: 8 <= mean_words(row) <= 8,
    "words=9-&source=coco": lambda row: mean_words(row) >= 9 and row["source"] == "coco",
}


def mean_words(row: Row) -> int:
    words = [len(re.findall(r"[A-Za-z0-9]+(?:['’-][A-Za-z0-9]+)*", one)) for one in row["captions"]]
    return sum(words) // len(words)


@pytest.mark.soak
def test_filters_select_the_same_rows_as_python(
    ccd: Reported, open_view: Callable[..., View]
) -> None:
    view = open_view(ccd)
    for address, wanted in FILTERS.items():
        numbers = ccd.numbers(wanted)
        view.go(f"#/rows?{address}")
        assert view.all_shown() == numbers, address
        details = view.page.locator("#found").inner_text()
        assert details.split(" ")[0] == str(len(numbers))
        assert view.page.locator("#empty").is_visible() == (not numbers)


@pytest.mark.soak
def test_checkboxes_filter_and_counts_show_the_resulting_rows(
    ccd: Reported, open_view: Callable[..., View]
) -> None:
    view = open_view(ccd)
    view.page.get_by_label("openverse", exact=True).check()
    view.settle()
    found = ccd.numbers(lambda row: row["source"] == "openverse")
    assert view.shown() == found[:PAGE_ROWS]
    assert "source=openverse" in view.page.url
    for line in view.page.locator("fieldset:has(legend:text-is('Difference')) li").all():
        value = line.locator("label").inner_text()
        amount = line.locator(".amount").inner_text()
        wanted = ccd.numbers(
            lambda row, value=value: (
                row["source"] == "openverse"  # type: ignore[misc]
                and (contrast(row, "difference") or "none (anchor)") == value
            )
        )
        assert int(amount) == len(wanted), value
    coco = view.page.locator("li", has=view.page.get_by_label("coco", exact=True))
    assert int(coco.locator(".amount").inner_text()) == len(
        ccd.numbers(lambda row: row["source"] == "coco")
    )
    view.page.get_by_role("button", name="clear all").click()
    view.settle()
    assert view.page.locator("input:checked").count() == 0
    assert view.shown() == list(range(1, PAGE_ROWS + 1))


@pytest.mark.soak
def test_a_search_matches_prefixes_of_words(ccd: Reported, open_view: Callable[..., View]) -> None:
    cases: list[tuple[str, ...]] = [
        ("anchor",),
        ("street", "said"),
        ("entity",),
        ("detail", "4"),
        ("pict", "typ"),
        ("zzz",),
    ]
    view = open_view(ccd)
    for words in cases:
        view.go(f"#/rows?q={'+'.join(words).upper()}")
        assert view.all_shown() == rows_with(ccd.rows, *words), words


@pytest.mark.soak
def test_a_search_finds_characters_and_entities(
    ccd: Reported, open_view: Callable[..., View]
) -> None:
    view = open_view(ccd, "#/rows?q=公交")
    assert view.shown() == ccd.numbers(lambda row: bool(row["translations"]))
    view.go(f"#/rows?q={ccd.rows[76]['image_entity_id']}")
    assert view.shown() == [77]


@pytest.mark.soak
def test_typing_searches_and_the_url_keeps_the_query(
    ccd: Reported, open_view: Callable[..., View]
) -> None:
    view = open_view(ccd)
    view.page.keyboard.press("/")
    expect_that(view.page.locator("#search")).to_be_focused(timeout=WAIT_MS)
    view.page.keyboard.type("relation 7")
    wanted = rows_with(ccd.rows, "relation", "7")
    expect_that(view.page.locator("#tiles li")).to_have_count(len(wanted), timeout=WAIT_MS)
    assert view.shown() == wanted
    assert view.focused() == "search"
    again = open_view(ccd, "#" + view.page.url.split("#")[1])
    assert again.shown() == wanted
    assert again.page.locator("#search").input_value() == "relation 7"


@pytest.mark.soak
def test_a_missing_row_is_reported(ccd: Reported, open_view: Callable[..., View]) -> None:
    view = open_view(ccd, "#/row/999")
    details = view.page.locator("#missing")
    assert details.inner_text() == f"There is no row 999: the release has {len(ccd.rows)} rows."
    assert view.shown()
    view.go("#/row/2")
    assert not details.is_visible()


@pytest.mark.soak
def test_the_about_page_shows_citation_and_terms(
    open_view: Callable[..., View], tmp_path: Path
) -> None:
    with built("plain", tmp_path) as made:
        report = Reported(made.folder)
    view = open_view(report, "#/about")
    details = view.page.locator("#about").inner_text()
    for stated in (ABOUT.title, ABOUT.doi, ABOUT.contact, "Ada Lovelace", "Example Laboratory"):
        assert str(stated) in details
    assert whole_sentence(made.manifest) in details
    assert texts_sentence(made.manifest) in details
    assert view.page.get_by_role("link", name=str(ABOUT.doi)).count() == 1
    view.go("#/row/1")
    (licence,) = {one.licence for one in made.manifest.sources}
    assert licence in view.page.locator("#row .facts").first.inner_text()


@pytest.mark.soak
def test_keyboard_navigation(ccd: Reported, open_view: Callable[..., View]) -> None:
    view = open_view(ccd)
    press = view.page.keyboard.press
    press("j")
    press("j")
    press("ArrowRight")
    focused = "document.activeElement.dataset.row"
    assert view.page.evaluate(focused) == "2"
    press("n")
    view.settle()
    assert view.page.evaluate(focused) == str(PAGE_ROWS)
    press("End")
    assert view.page.evaluate(focused) == str(2 * PAGE_ROWS - 1)
    press("j")
    view.settle()
    assert view.page.evaluate(focused) == str(2 * PAGE_ROWS)
    press("p")
    view.settle()
    press("ArrowDown")
    press("Enter")
    view.settle()
    across = view.number() - PAGE_ROWS - 1
    assert across > 2
    assert view.focused() == "row-title"
    press("j")
    view.settle()
    assert view.number() == PAGE_ROWS + across + 2
    press("ArrowLeft")
    view.settle()
    press("k")
    view.settle()
    assert view.number() == PAGE_ROWS + across
    press("Escape")
    view.page.wait_for_selector("#tiles a:focus")
    assert view.page.evaluate(focused) == str(PAGE_ROWS + across - 1)
    press("?")
    assert view.page.locator("#keys").is_visible()
    press("Escape")
    assert not view.page.locator("#keys").is_visible()


@pytest.mark.soak
def test_the_first_tab_stop_skips_to_the_main_content(
    ccd: Reported, open_view: Callable[..., View]
) -> None:
    view = open_view(ccd)
    view.page.keyboard.press("Tab")
    link = view.page.locator(".skip")
    assert link.bounding_box()["x"] >= 0
    view.page.keyboard.press("Enter")
    assert view.focused() == "main"
    assert "#/" not in view.page.url


def test_a_row_page_shows_all_fields(ccd: Reported, open_view: Callable[..., View]) -> None:
    number = next(iter(ccd.numbers(lambda row: row["contrast"] and row["creator"])))
    row = ccd.rows[number - 1]
    view = open_view(ccd, f"#/row/{number}")
    view.settle()
    body = view.page.locator("#row")
    assert body.locator(".captions li > p:first-child").all_inner_texts() == row["captions"]
    details = body.inner_text()
    for value in (row["source"], row["sha256"], row["creator"], row["licence"], row["split"]):
        assert value in details
    assert row["contrast"]["difference"] in body.locator("section.contrast").inner_text()
    link = body.locator(f"a[href='{row['source_url']}']")
    assert "noopener" in link.get_attribute("rel")
    image = body.locator(".picture img")
    assert image.get_attribute("src") == f"../release/{row['file_path']}"
    expect_that(image).to_have_js_property("naturalWidth", 12, timeout=WAIT_MS)
    members = [int(one) for one in body.locator(".members .number").all_inner_texts()]
    anchor_path = row["contrast"]["anchor"]
    anchor = int(re.findall(r"\d+", anchor_path)[0])
    of_group = ccd.numbers(lambda one: (one["contrast"] or {}).get("anchor") == anchor_path)
    assert members == [anchor, *of_group]
    assert body.locator("[aria-current]").count() == 1


@pytest.mark.soak
def test_lineage_is_drawn_and_listed(ccd: Reported, open_view: Callable[..., View]) -> None:
    view = open_view(ccd, "#/row/2")
    view.settle()
    section = view.page.locator("#lineage")
    section.locator("select").select_option("all of it")
    svg = section.locator("svg")
    assert svg.locator(".entity.root").count() == 6
    names = svg.locator(".kind").all_inner_texts() + svg.locator(".kind").all_text_contents()
    assert {"image", "caption", "source", "prompt"} <= set(names)
    assert svg.locator(".activity").count() > 0
    assert "Qwen/Qwen-14B-Chat@abc" in " ".join(svg.locator(".agent title").all_text_contents())
    boxes = [one.bounding_box() for one in svg.locator(".entity rect, .activity rect").all()]
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            apart = (
                one["x"] + one["width"] <= other["x"]
                or other["x"] + other["width"] <= one["x"]
                or one["y"] + one["height"] <= other["y"]
                or other["y"] + other["height"] <= one["y"]
            )
            assert apart
    section.locator("summary").click()
    listed = section.locator(".lineage-list > li")
    assert listed.count() == svg.locator(".entity").count()
    assert ccd.rows[1]["image_entity_id"] in listed.first.inner_text()
    section.locator("select").select_option("caption 1")
    assert svg.locator(".entity.root").count() == 1


@pytest.mark.soak
def test_rows_and_filters_of_videos_tasks_and_people(
    kinds: dict[str, Reported], open_view: Callable[..., View]
) -> None:
    street = open_view(kinds["street"], "#/row/2")
    street.settle()
    crop = kinds["street"].rows[1]["crop"]
    assert crop["video"] in street.page.locator("#row").inner_text()
    persons = kinds["street"].numbers(lambda row: row["id"] == kinds["street"].rows[1]["id"])
    members = street.page.locator(".members .number").all_inner_texts()
    assert [int(one) for one in members] == persons
    for name in ("split",):
        for value in ("train", "test"):
            street.go(f"#/rows?{name}={value}")
            wanted = kinds["street"].numbers(lambda row, value=value: row["split"] == value)  # type: ignore[misc]
            assert street.shown() == wanted
    tasks = open_view(kinds["tasks"], "#/rows?tier=v2&task=color")
    assert tasks.shown() == kinds["tasks"].numbers(
        lambda row: row["tier"] == "v2" and row["task"] == "color"
    )
    assert "no caption" in tasks.page.locator("#tiles").inner_text()
    plain = open_view(kinds["plain"], "#/rows?origin=edited_rewrite")
    assert plain.shown() == kinds["plain"].numbers(
        lambda row: "edited_rewrite" in row["caption_origins"]
    )
    plain.go("#/rows?reviewed=some")
    assert plain.shown() == kinds["plain"].numbers(
        lambda row: any(row["caption_reviewed"]) and not all(row["caption_reviewed"])
    )


VIEWS = ("#/rows", "#/row/2", "#/numbers", "#/about")


@pytest.mark.soak
def test_a_phone_needs_no_horizontal_scrolling(
    ccd: Reported, kinds: dict[str, Reported], open_view: Callable[..., View]
) -> None:
    for kind in ("ccd", "street"):
        report = ccd if kind == "ccd" else kinds[kind]
        view = open_view(
            report, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True
        )
        for address in VIEWS:
            view.go(address)
            view.page.wait_for_timeout(100)
            assert view.page.evaluate("document.documentElement.scrollWidth") == 360, address
        view.go("#/rows")
        assert not view.page.locator("#filters").is_visible(), kind
        view.page.get_by_text("Filters", exact=True).tap()
        assert view.page.locator("#filters").is_visible(), kind


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
    if (!own || !element.checkVisibility() || element.closest("svg, .off")) continue;
    const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
}"""

UNNAMED = """() => {
  const places = "a, button, input, select, nav, section, img, svg[role], [role=region]";
  const named = (element) =>
    element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") ||
    element.textContent.trim() || element.labels?.length ||
    element.querySelector?.("img[alt]:not([alt=''])");
  const isBare = (element) => (element.tagName === "IMG" ? !element.alt : !named(element));
  return [...document.querySelectorAll(places)]
    .filter((element) => element.checkVisibility() && isBare(element))
    .map((element) => element.outerHTML.slice(0, 120));
}"""


@pytest.mark.soak
def test_text_has_contrast_and_elements_have_accessible_names(
    ccd: Reported, kinds: dict[str, Reported], open_view: Callable[..., View]
) -> None:
    for report in (ccd, kinds["street"]):
        view = open_view(report)
        for scheme in ("light", "dark"):
            view.page.emulate_media(color_scheme=scheme)
            dark = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", dark))) < 200) == (scheme == "dark"), scheme
            for address in VIEWS:
                view.go(address)
                view.page.wait_for_timeout(150)
                assert view.page.evaluate(CONTRAST) == [], address
                assert view.page.evaluate(UNNAMED) == [], address
                ids = view.page.evaluate(
                    "[...document.querySelectorAll('[id]')].map(one => one.id)"
                )
                assert len(ids) == len(set(ids)), scheme


@pytest.mark.soak
def test_numbers_and_terms_are_readable_without_javascript(
    ccd: Reported, open_view: Callable[..., View]
) -> None:
    view = open_view(ccd, java_script_enabled=False)
    for name in ("Numbers", "About this release"):
        assert view.page.get_by_role("heading", name=name).is_visible()
    assert not view.page.locator("#rows").is_visible()
    assert view.page.get_by_text("need JavaScript").is_visible()


def test_hostile_texts_are_shown_as_text(
    open_view: Callable[..., View], tmp_path_factory: pytest.TempPathFactory
) -> None:
    report = Reported(hostile_release(tmp_path_factory.mktemp("hostile")))
    view = open_view(report, viewport={"width": 360, "height": 740})
    for address in VIEWS:
        view.go(address)
        assert view.page.evaluate("document.documentElement.scrollWidth") == 360, address
    for number, row in enumerate(report.rows, 1):
        view.go(f"#/row/{number}")
        text = row["captions"][0]
        first = view.page.locator(".captions li > p").first
        if len(text) > 1200:
            assert first.text_content() == f"{text[:1200]}…"
            view.page.get_by_role("button", name="show all").first.click()
        assert first.text_content() == text
        assert view.page.evaluate("document.documentElement.scrollWidth") == 360
    assert view.page.evaluate("window.broken") is None
    assert sorted(row["captions"][0] for row in report.rows) == sorted(TEXTS)
    assert view.page.evaluate("document.querySelectorAll('script').length") == 1


@pytest.mark.soak
def test_a_missing_data_file_is_reported(ccd: Reported, browser: Any, tmp_path: Path) -> None:
    import shutil

    report = shutil.copytree(ccd.page.parent, tmp_path / "report")
    shutil.rmtree(report / "data" / "rows")
    view = View(browser, (report / "index.html").as_uri())
    view.page.evaluate("location.hash = '#/row/3'")
    view.page.wait_for_selector("#fault:not([hidden])")
    assert "data/rows/0.js is missing" in view.page.locator("#fault").inner_text()
    view.context.close()
