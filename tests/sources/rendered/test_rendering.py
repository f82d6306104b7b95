"""Rendered tasks: repeatable bytes, prefixes, no repeated question, valid facts."""

import io
import itertools
from pathlib import Path

import pytest
from PIL import Image, ImageStat

from loupe.models.weights import installed_folder
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.requests import SignCategory, SignPair
from loupe.schemas.retrieval_task import RENDERED_TASKS
from loupe.schemas.taxonomy import RetrievalTask
from loupe.sources.chance import Chance
from loupe.sources.rendered import FontShelf, RenderOptions, task_refusal
from loupe.sources.rendered.calculations import draw_calculation_task
from loupe.sources.rendered.charts import draw_chart, draw_flowchart
from loupe.sources.rendered.collection import render_tasks
from loupe.sources.rendered.pen import SURFACES, Pen, paint_surface
from loupe.sources.rendered.signs import BETWEEN, draw_translation_task, shipped_pairs


def test_fewer_images_are_a_prefix_of_more_and_all_are_valid(
    subtests: pytest.Subtests,
) -> None:
    for task in RENDERED_TASKS:
        with subtests.test(task=task):
            many = list(render_tasks(task, 5, 3))
            few = list(render_tasks(task, 5, 1))
            assert few == many[:1]
            assert len({image.truth.question for image in many}) == 3
            assert len({sha256_of(image.png) for image in many}) == 3
            other = next(render_tasks(task, 6, 1))
            assert other.png != many[0].png
            for number, image in enumerate(many):
                truth = image.truth
                assert (truth.task, truth.seed, truth.truth["number"]) == (task, 5, number)
                assert truth.answer
                assert len(truth.facts) >= 4
                assert len(set(truth.facts)) == len(truth.facts)
                assert not [fact for fact in truth.facts if fact.endswith(".") or fact[0].isspace()]
                picture = Image.open(io.BytesIO(image.png))
                assert picture.format == "PNG"
                assert min(picture.size) >= 320
                assert max(ImageStat.Stat(picture.convert("L")).stddev) > 5  # something is drawn


def test_answers_of_translations_come_from_the_shipped_pairs() -> None:
    english = {pair.chinese: pair.english for pair in shipped_pairs()}
    chinese = {pair.english: pair.chinese for pair in shipped_pairs()}
    shelf, directions = FontShelf(), set()
    for number in range(200):
        draft = draw_translation_task(Chance("answers", number), shelf, shipped_pairs())
        assert draft.answer is not None
        texts = draft.question.split(BETWEEN)
        known = english if texts[0] in english else chinese
        assert draft.answer == BETWEEN.join(known[text] for text in texts)
        directions.add(known is english)
    assert directions == {True, False}


def test_the_first_fact_of_a_sign_is_its_english_text() -> None:
    for image in render_tasks(RetrievalTask.TRANSLATION, 11, 2):
        (first, *_) = image.truth.truth["pairs"]
        assert first["english"] in image.truth.facts[0]
        assert [fact for fact in image.truth.facts if first["chinese"] in fact]


def test_a_missing_font_is_reported_and_other_tasks_still_render() -> None:
    def without_chinese(module: str) -> Path | None:
        return None if module == "pylopdf_fonts_zh_cn" else installed_folder(module)

    options = RenderOptions(shelf=FontShelf(without_chinese))
    with pytest.raises(ConfigurationError, match=r"'Noto Sans SC' .*'render'. is not installed"):
        render_tasks(RetrievalTask.TRANSLATION, 0, 1, options)
    refusal = task_refusal(RetrievalTask.TRANSLATION, options)
    assert refusal is not None
    assert refusal.reason == "missing_font"
    assert refusal.detail.endswith("uv pip install -e '.[render]'")
    for task in (RetrievalTask.CALCULATION, RetrievalTask.CODE):
        assert task_refusal(task, options) is None
        assert len(list(render_tasks(task, 0, 1, options))) == 1


def test_a_task_that_is_not_rendered_is_refused() -> None:
    with pytest.raises(UsageError, match="'color' is not rendered, wanted one of"):
        render_tasks(RetrievalTask.COLOR, 0, 1)


def test_exhausted_sign_pairs_raise_a_usage_error() -> None:
    pairs = (SignPair(category=SignCategory.ROAD, chinese="机场", english="Airport"),)
    drawn = render_tasks(RetrievalTask.TRANSLATION, 0, 5, RenderOptions(pairs=pairs))
    assert {image.truth.question for image in itertools.islice(drawn, 2)} == {"机场", "Airport"}
    with pytest.raises(UsageError, match=r"no further question .* after 2 images"):
        next(drawn)


def test_drawn_text_and_figures_keep_a_margin() -> None:
    """At least 16 pixels are free between the ink and the borders of the image."""
    shelf, size = FontShelf(), (640, 480)
    for number in range(18):
        chance, surface = Chance("edges", number), SURFACES[number % len(SURFACES)]
        draw = (draw_calculation_task, draw_chart, draw_flowchart)[number % 3]
        faces = shelf.names("handwritten") if surface.handwritten else shelf.names("serif")
        face, ink = chance.pick(faces), surface.inks[0]
        _, box = paint_surface(surface, size, chance)
        pen = Pen(size, shelf, face, ink, chance, is_hand=surface.handwritten)
        what = draw(chance)
        what.draw(pen, box)
        drawn = pen.mask().getbbox()
        assert drawn is not None
        edges = (drawn[0], drawn[1], size[0] - drawn[2], size[1] - drawn[3])
        assert min(edges) >= 16, (what.question, face)


def test_a_character_without_a_typeface_is_returned() -> None:
    shelf = FontShelf()
    assert shelf.undrawable("请上二楼", "chinese") is None
    assert shelf.undrawable("Café, No. 5", "serif", "sans-serif") is None
    assert shelf.undrawable("Exit 出口", "serif", "sans-serif") == "出"
