"""Contents of the card and escaping of quoted texts."""

import re

import frontmatter
import pytest

from loupe.checks.rewrites import reading_checks
from loupe.release.build import build_release
from loupe.release.card.documents import as_code_block, render_card, size_category
from loupe.release.card.markup import as_link, as_text
from loupe.release.card.model_use import DEMONSTRATION_CITATION
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.quality import ErrorStatistics, KindErrors
from loupe.schemas.release import (
    FaceStatistics,
    GateStatistics,
    Manifest,
    PriorWithdrawal,
    ReleasedPrompt,
    RewriteStatistics,
    TextChecks,
)
from tests.release.worlds import DATASET, small_world, store_world

HOSTILE = (
    "# <script>alert(1)</script> | ` ``` *x* [a](http://b) ![i](x) $x$ {{ 7 * 7 }} &amp;\n\n- x"
)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    home = tmp_path_factory.mktemp("release")
    world = store_world(home / "world", small_world(2).contents())
    built = build_release(world.store, world.blobs, DATASET, "1.0.0", home / "out")
    world.store.close()
    assert (home / "out/README.md").read_text("utf-8") == render_card(built.manifest)
    return built.manifest


def test_the_front_matter_describes_the_dataset_for_the_hub(manifest: Manifest) -> None:
    card = frontmatter.loads(render_card(manifest))
    assert card["license"] == "cc-by-nc-sa-4.0"
    assert card["size_categories"] == ["n<1K"]
    assert card["configs"] == [
        {
            "config_name": "default",
            "data_files": [{"split": "test", "path": "data/test-*.parquet"}],
        }
    ]


def test_the_card_names_sources_models_prompts_and_published_figures(manifest: Manifest) -> None:
    card = render_card(manifest)
    for source in manifest.sources:
        assert f"| {source.name} | CC BY-NC-SA 4.0 |" in card
    assert "| Qwen/Qwen-14B-Chat | abc | seed 0, temperature 0.7 | 12 |" in card
    assert manifest.prompts[0].text in card
    assert "| captions (text queries) | 36 | 37,939 |" in card
    assert "| … of these reviewed by a person | 12 (50 %) |" in card
    assert "- Original captions are unchanged from their sources" in card


def test_notices_are_shown_only_if_they_apply(manifest: Manifest) -> None:
    assert "**Demonstration.**" not in render_card(manifest)
    assert "**Unreviewed.**" not in render_card(manifest)
    marked = manifest.model_copy(update={"demonstration": True, "unreviewed": True})
    assert "> **Demonstration.**" in render_card(marked)
    assert "> **Unreviewed.**" in render_card(marked)
    pinned, *others = manifest.models
    moving = pinned.model_copy(update={"revision": "main"})
    assert "is not pinned" not in render_card(manifest)
    card = render_card(manifest.model_copy(update={"models": (moving, *others)}))
    assert "A revision such as `main` is not pinned" in card
    tags = frontmatter.loads(render_card(marked)).metadata["tags"]
    assert tags == ["image-text-retrieval", "person-retrieval", "demonstration", "unreviewed"]


def test_the_card_lists_rows_withdrawn_from_earlier_versions(manifest: Manifest) -> None:
    assert "Withdrawn from earlier versions" not in render_card(manifest)
    gone = PriorWithdrawal(version="0.9.0", id="ab" * 32, rows=3, rows_in_part=1)
    card = render_card(manifest.model_copy(update={"withdrawn": (gone,)}))
    assert "## Withdrawn from earlier versions" in card
    assert "| 0.9.0 | `abababababab` | 3 | 1 |" in card
    assert "delete these rows with their images" in card
    assert "| `withdrawals.json` |" in card
    assert "\n\n\n" not in card.split("## Contents")[0].split("---\n", 2)[2]


def test_quoted_texts_do_not_become_markup(manifest: Manifest) -> None:
    source = manifest.sources[0].model_copy(
        update={"licence": HOSTILE, "citation": HOSTILE, "homepage": "javascript:alert(1)"}
    )
    prompt = ReleasedPrompt(
        entity_id="0" * 32, prompt_id="p", version=HOSTILE, digest="d", text=HOSTILE
    )
    card = render_card(
        manifest.model_copy(update={"sources": (source,), "prompts": (prompt,), "models": ()})
    )
    body = re.sub(r"^(`{3,})text\n.*?^\1$", "", card, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<script", body)
    rows = [line for line in body.splitlines() if line.startswith("|") and "alert" in line]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [5]
    assert "<javascript" not in body


def test_markdown_in_texts_is_escaped() -> None:
    cases: list[tuple[str, str]] = [
        ("plain", "plain"),
        ("two\nlines", "two lines"),
        ("a|b", r"a\|b"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("2.4 USD", "2.4 USD"),
        ("snake_case *x*", r"snake\_case \*x\*"),
        ("C:\\", "C:\\\\"),
    ]
    for text, shown in cases:
        assert as_text(text) == shown, (text, shown)


def test_only_web_urls_become_links() -> None:
    assert as_link("https://example.org/a_b") == "<https://example.org/a_b>"
    assert as_link("https://example.org/ <b>") == r"https://example.org/ \<b\>"


def test_a_code_fence_is_longer_than_fences_inside() -> None:
    assert as_code_block("a\n````\nb").startswith("`````text\n")


def test_size_categories_are_those_of_the_hub() -> None:
    cases: list[tuple[int, str]] = [
        (0, "n<1K"),
        (999, "n<1K"),
        (1000, "1K<n<10K"),
        (2_000_000, "n>1M"),
    ]
    for rows, name in cases:
        assert size_category(rows) == name, (rows, name)


def test_the_card_says_in_which_language_nothing_is_checked(manifest: Manifest) -> None:
    def card(checks: tuple[str, ...], language: str) -> str:
        settings = FaithfulnessSettings(language=language)
        reading = reading_checks(checks, settings)
        checked = TextChecks(language=language, checks=checks, reading=reading)
        statistics = manifest.statistics.model_copy(update={"text_checks": checked})
        return render_card(manifest.model_copy(update={"statistics": statistics}))

    english = card(("form", "support", "person", "no-price (shop 1)"), "en")
    assert "that it rewrites, by the check “person” and the check “no-price (shop 1)”." in english
    german = card(("form", "support", "person"), "de")
    assert "The checks of this build (form, support, person) compare only the form" in german
    assert "- **Language variety.** `de` (ISO 639-1)" in german
    assert "**Not checked**" in card(("form", "support"), "en")


def test_the_card_says_how_far_the_split_is_from_the_wanted_one(manifest: Manifest) -> None:
    def card(share: float) -> str:
        statistics = manifest.statistics.model_copy(update={"test_share": share})
        return render_card(manifest.model_copy(update={"statistics": statistics}))

    splits = {one.split: one.identities for one in manifest.statistics.splits}
    reached = splits["test"] / manifest.statistics.identities
    assert "which is within the tolerance of 5 percentage points" in card(reached)
    assert "all people of a video are in the same split" in card(abs(reached - 0.5))


def test_the_card_says_in_how_many_images_faces_are_kept(manifest: Manifest) -> None:
    def card(searched: int) -> str:
        found = {"images": searched, "changed": 1, "faces": 1}
        blurred = FaceStatistics(method="blur", model="finder", version="1", **found)
        statistics = manifest.statistics.model_copy(update={"faces": (blurred,)})
        return render_card(manifest.model_copy(update={"statistics": statistics}))

    images = manifest.statistics.images
    assert "Faces are kept as they are: people may be recognised." in render_card(manifest)
    assert f"kept as they are in 2 of {images} images: people may be" in card(images - 2)
    assert "Faces are kept" not in card(images)
    drawn = [
        one.model_copy(update={"citation": DEMONSTRATION_CITATION}) for one in manifest.sources
    ]
    drawings = manifest.model_copy(update={"sources": tuple(drawn)})
    assert "Faces are kept" not in render_card(drawings)
    assert "they show no real person, and no real face" in render_card(drawings)
    assert "sex and age in them are impressions" not in render_card(drawings)
    half = manifest.model_copy(update={"sources": (*drawn[1:], manifest.sources[0])})
    assert "Faces are kept as they are" in render_card(half)
    assert "no real person" not in render_card(half)
    found = drawn[0].model_copy(
        update={"name": "loupe-s", "format": "image-search", "citation": ""}
    )
    searched = manifest.model_copy(update={"sources": (*drawn, found)})
    assert "are drawn: they show no real person" in render_card(searched)


def test_the_card_of_unchanged_captions_says_that_nothing_was_made(manifest: Manifest) -> None:
    nothing = RewriteStatistics(released=0, reviewed=0, edited=0, rejected=0, pending=0)
    changes = {"rewrites": nothing, "gates": (), "unused": (), "test_share": None}
    statistics = manifest.statistics.model_copy(update=changes)
    bare = {"statistics": statistics, "models": (), "prompts": ()}
    card = render_card(manifest.model_copy(update=bare))
    assert "## How it was made\n\nNo model or prompt was used" in card
    assert "No model or prompt was used" not in render_card(manifest)


def test_gates_show_what_a_policy_accepted_and_what_it_rejected(manifest: Manifest) -> None:
    gate = GateStatistics(
        gate="candidates", by_people=3, by_policy=(("auto", 266),), rejected=(("auto", 76),)
    )
    statistics = manifest.statistics.model_copy(update={"gates": (gate,)})
    card = render_card(manifest.model_copy(update={"statistics": statistics}))
    assert "| candidates | 3 | auto | 190 | 76 |" in card


def test_the_card_says_how_many_people_decided(manifest: Manifest) -> None:
    def said(*gates: GateStatistics) -> str:
        statistics = manifest.statistics.model_copy(update={"gates": gates})
        return render_card(manifest.model_copy(update={"statistics": statistics}))

    one = GateStatistics(gate="kinds", by_people=43, by_policy=(), people=3)
    other = GateStatistics(gate="places", by_people=4, by_policy=(), people=2)
    assert "- **Annotators.** 3 people, known by pseudonyms; age" in said(one)
    assert "- **Annotators.** At least 3 people, known by pseudonyms; age" in said(one, other)


def test_the_card_says_if_the_instructions_changed_while_people_worked(manifest: Manifest) -> None:
    def said(*instructions: tuple[str, int]) -> str:
        gate = GateStatistics(
            gate="kinds", by_people=43, by_policy=(), people=3, instructions=instructions
        )
        statistics = manifest.statistics.model_copy(update={"gates": (gate,)})
        return render_card(manifest.model_copy(update={"statistics": statistics}))

    assert "instructions changed" not in said(("a" * 32, 43))
    changed = said(("a" * 32, 1040), ("b" * 32, 3))
    assert "|\n\n- kinds: the instructions changed while people worked: 2 versions, with" in changed
    assert "with 1,040, 3 answers, the oldest first" in changed


def test_edits_that_nobody_else_judged_are_called_edits(manifest: Manifest) -> None:
    share = KindErrors(
        kind="not doubted by a check",
        items=36,
        answered=36,
        audited=0,
        error_rate=0.0,
        lower=0.0,
        upper=0.1,
    )
    errors = ErrorStatistics(
        **(share.model_dump() | {"kind": "all"}),
        queue="places-kinds",
        people=3,
        gold_answers=0,
        unmeasured=7,
        unmeasured_edits=7,
        kinds=(share,),
    )
    statistics = manifest.statistics.model_copy(update={"errors": (errors,)})
    card = render_card(manifest.model_copy(update={"statistics": statistics}))
    assert "7 more accepted items are texts or records of a person who edited" in card
    assert "nobody reviewed an item of their kind" not in card


def test_the_card_of_things_says_nothing_of_how_people_look(manifest: Manifest) -> None:
    things = render_card(manifest.model_copy(update={"of_persons": False}))
    for said in (
        "person-retrieval",
        "how people look",
        "images of people",
        "Faces are kept",
        "clothing, hair",
    ):
        assert said in render_card(manifest)
        assert said not in things
    assert "| split | identities |" in things
