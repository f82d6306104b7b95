"""The built-in editor makes exactly the requested change, or refuses it."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.editor import ASPECTS, Change, read_change, say_change
from loupe.demo.stills.scene import STRIP_BOX, Scene, Thing, read_scene
from loupe.demo.stills.text import content_of
from loupe.demo.worlds.stills import jpeg_of
from loupe.models.image_editor import ImageEditor
from loupe.models.registry import build_image_editor
from loupe.retrieval.edit_measures import change_between, judge_edit, measure_edit
from loupe.schemas.base import Box
from loupe.schemas.chat import ChatImage
from loupe.schemas.image_edit import (
    BuiltinEditor,
    EditedPicture,
    EditFailure,
    EditOutcome,
    EditRequest,
)
from loupe.schemas.profile import EditCheckSettings
from loupe.schemas.proposals import EditMeasurement
from loupe.schemas.taxonomy import DifferenceType

_CAR, _CAT = Thing("car", "red", 30, 200, 64), Thing("cat", "black", 180, 190, 58)
_BALLS = tuple(Thing("ball", "orange", left, 200, 50) for left in (10, 80, 250))
_CLOTHES = (("shirt", "green"), ("trousers", "blue"), ("hat", "red"))
_PERSON = Thing("person", None, 190, 210, 112, action="standing", clothes=_CLOTHES)
_SIGN = Thing("sign", None, 60, 210, 84, word="OPEN")
_THINGS = {
    "things": (_CAR, _CAT),
    "many": (*_BALLS, _CAT._replace(left=150)),
    "person": (_CAR, _PERSON),
    "sign": (_CAT, _SIGN),
}


def _scene(name: str, style: str = "flat drawing") -> Scene:
    return Scene("park", style, 4, _THINGS[name])


@pytest.fixture(scope="module")
def editor() -> ImageEditor:
    return build_image_editor(BuiltinEditor())


def _edit(editor: ImageEditor, image: ChatImage, instruction: str, seed: int = 1) -> EditOutcome:
    [(position, outcome)] = editor.edit(
        [EditRequest(image=image, instruction=instruction, seed=seed)]
    )
    assert position == 0
    return outcome


def _opened(image: ChatImage) -> Image.Image:
    with Image.open(io.BytesIO(image.data)) as picture:
        return picture.convert("RGB")


def _jpeg(picture: Image.Image) -> ChatImage:
    return ChatImage(media_type="image/jpeg", data=jpeg_of(picture))


_OF_THINGS: list[tuple[str, str, tuple[Thing, ...]]] = [
    (
        "things",
        "Change the colour of the car from red to blue.",
        (_CAR._replace(colour="blue"), _CAT),
    ),
    ("things", "Replace the red car by a red boat.", ()),
    ("things", "Replace the red car by a boat.", (_CAR._replace(kind="boat"), _CAT)),
    (
        "many",
        "change the colour of the  balls from orange to purple",
        (*(one._replace(colour="purple") for one in _BALLS), _CAT._replace(left=150)),
    ),
    (
        "many",
        "Replace the orange balls by boxes.",
        (*(one._replace(kind="box") for one in _BALLS), _CAT._replace(left=150)),
    ),
    (
        "person",
        "Change the colour of the hat from red to black.",
        (_CAR, _PERSON._replace(clothes=(*_CLOTHES[:2], ("hat", "black")))),
    ),
    (
        "person",
        "Change what the person does from standing to jumping.",
        (_CAR, _PERSON._replace(action="jumping")),
    ),
    (
        "sign",
        'Change the word on the sign from "OPEN" to "MUSEUM".',
        (_CAT, _SIGN._replace(word="MUSEUM")),
    ),
]


def test_exactly_the_requested_change_is_made(
    subtests: pytest.Subtests, editor: ImageEditor
) -> None:
    for style in ("flat drawing", "poster", "pencil sketch"):
        for name, instruction, wanted in _OF_THINGS if style == "flat drawing" else _OF_THINGS[:1]:
            with subtests.test(style=style, instruction=instruction):
                scene = _scene(name, style)
                image = _jpeg(draw_still(scene))
                outcome = _edit(editor, image, instruction)
                if not wanted:
                    assert isinstance(outcome, EditFailure)
                    assert outcome.reason == "instruction_not_understood"
                    continue
                assert isinstance(outcome, EditedPicture), outcome
                result = _opened(outcome.image)
                assert read_scene(result) == scene._replace(things=wanted)
                changed = np.abs(
                    np.asarray(result, int) - np.asarray(_opened(image), int)
                ).max(axis=2)  # fmt: skip
                assert STRIP_BOX in outcome.regions
                for left, top, right, bottom in outcome.regions:
                    changed[int(top) : int(bottom), int(left) : int(right)] = 0
                assert not changed.any()
                measured, warnings = _measured(_opened(image), outcome, outcome.regions)
                assert measured.outside_share == 0
                assert warnings == ()


def test_an_object_moves_to_the_other_side(editor: ImageEditor) -> None:
    scene = _scene("things")
    outcome = _edit(
        editor, _jpeg(draw_still(scene)), "Move the black cat to the left of the red car."
    )
    assert isinstance(outcome, EditFailure)
    assert outcome.reason == "no_room"
    scene = scene._replace(things=(_CAR._replace(left=120), _CAT._replace(left=210)))
    outcome = _edit(
        editor, _jpeg(draw_still(scene)), "Move the black cat to the left of the red car."
    )
    assert isinstance(outcome, EditedPicture)
    after = read_scene(_opened(outcome.image))
    assert after is not None
    assert after.things[0] == scene.things[0]
    assert after.things[1]._replace(left=0, bottom=0) == _CAT._replace(left=0, bottom=0)
    assert content_of(after).relations == (("cat", "left", "car"),)


def test_place_and_style_change_the_whole_image(editor: ImageEditor) -> None:
    image = _jpeg(draw_still(_scene("things")))
    place, again, other = (
        _edit(editor, image, "Replace the park by a street.", seed) for seed in (1, 1, 2)
    )
    style = _edit(editor, image, "Redraw the picture as a pencil sketch.")
    assert isinstance(place, EditedPicture)
    assert isinstance(again, EditedPicture)
    assert isinstance(other, EditedPicture)
    assert isinstance(style, EditedPicture)
    assert place.image == again.image != other.image
    assert place.regions == style.regions == ()
    assert read_scene(_opened(other.image)) == Scene("street", "flat drawing", 2, (_CAR, _CAT))
    assert read_scene(_opened(style.image)) == _scene("things", "pencil sketch")


def test_impossible_changes_are_refused_with_a_reason(
    subtests: pytest.Subtests, editor: ImageEditor
) -> None:
    cases: list[tuple[str, str, str]] = [
        ("things", "Make it nicer.", "instruction_not_understood"),
        ("things", "Change the colour of the boat from red to blue.", "nothing_to_change"),
        ("things", "Change the colour of the car from green to blue.", "nothing_to_change"),
        ("things", "Change the colour of the car from red to red.", "nothing_to_change"),
        ("things", "Change the colour of the cat from black to green.", "not_drawable"),
        ("things", "Change the colour of the shirt from red to blue.", "nothing_to_change"),
        ("many", "Change the colour of the ball from orange to blue.", "ambiguous"),
        ("things", "Replace the red car by a cat.", "ambiguous"),
        ("things", "Replace the red car by a dog.", "not_drawable"),
        ("things", "Replace the beach by a desert.", "nothing_to_change"),
        ("things", "Make the light of the picture dim.", "not_drawable"),
        ("things", "Redraw the picture as a black-and-white picture.", "not_drawable"),
        ("sign", 'Change the word on the sign from "SALE" to "OPEN".', "nothing_to_change"),
        ("person", "Change what the person does from running to waving.", "nothing_to_change"),
        ("things", "Move the black cat to the right of the red car.", "nothing_to_change"),
    ]
    for name, instruction, reason in cases:
        with subtests.test(name=name, instruction=instruction, reason=reason):
            outcome = _edit(editor, _jpeg(draw_still(_scene(name))), instruction)
            assert isinstance(outcome, EditFailure)
            assert (outcome.reason, outcome.retriable) == (reason, False)
            assert outcome.detail


def test_the_text_of_a_change_is_parsed_as_that_change(subtests: pytest.Subtests) -> None:
    changes = [
        Change("colour", "red", "blue", "umbrellas"),
        Change("colour", "red", "white", "trousers"),
        Change("word", "EXIT", "OPEN"),
        Change("kind", "umbrella", "", "car", "red"),
        Change("kind", "dogs", "", "cats", "orange"),
        Change("side", "left", "", "car", "red", "kite", "purple"),
        Change("action", "sitting", "running"),
        Change("place", "kitchen", "beach"),
        Change("style", "poster"),
        Change("light", "dim"),
    ]
    assert {change.aspect for change in changes} == set(ASPECTS)
    for change in changes:
        with subtests.test(change=change):
            assert read_change(say_change(change)) == change
            assert read_change(f"  {say_change(change).upper().rstrip('.')} ") == change
    for text in ("", "Change the colour of the car.", say_change(changes[0]) * 2,
                 "Replace the red cars by a boat."):  # fmt: skip
        with subtests.test(text=text):
            assert read_change(text) is None


def _measured(
    picture: Image.Image, outcome: EditOutcome, regions: tuple[Box, ...]
) -> tuple[EditMeasurement, tuple[str, ...]]:
    """Measure the change compared with `regions`, and return it with the warnings."""
    assert isinstance(outcome, EditedPicture), outcome
    kind, settings = DifferenceType.ENTITY_ATTRIBUTE, EditCheckSettings()
    change = change_between(picture, _opened(outcome.image), settings)
    measured = measure_edit(change, picture.size, kind, regions=regions)
    warnings = judge_edit(measured, kind, settings)
    assert isinstance(warnings, tuple), warnings
    return measured, warnings


def test_recolouring_the_wrong_object_is_flagged(editor: ImageEditor) -> None:
    picture = draw_still(_scene("things")).resize((400, 300), Image.Resampling.BICUBIC)
    asked = _edit(editor, _jpeg(picture), "Change the colour of the car from red to blue.")
    done = _edit(editor, _jpeg(picture), "Change the colour of the cat from black to white.")
    assert isinstance(asked, EditedPicture)
    assert _measured(picture, asked, asked.regions)[1] == ()
    measured, warnings = _measured(picture, done, asked.regions)
    assert measured.outside_share == measured.changed_share
    assert "Next to nothing changed in the wanted region." in warnings


def _grain() -> Image.Image:
    """Return an image like a photograph: no uniform areas, no coded strip."""
    generator = np.random.default_rng(3)
    coarse = generator.integers(60, 250, (12, 16, 3), np.uint8)
    smooth = Image.fromarray(coarse).resize((300, 200), Image.Resampling.BICUBIC)
    noise = generator.normal(0, 9, (200, 300, 3))
    return Image.fromarray(np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8))


def test_style_and_light_of_photographs_are_changed(
    subtests: pytest.Subtests, editor: ImageEditor
) -> None:
    cases: list[tuple[str, Callable[[NDArray[np.uint8]], object]]] = [
        (
            "Redraw the picture as a black-and-white picture.",
            lambda p: np.ptp(p, axis=2).max() == 0,
        ),
        ("Redraw the picture as a pencil sketch.", lambda p: np.median(p) > 180),
        ("Redraw the picture as a poster.", lambda p: len(np.unique(p)) <= 6),
        ("Make the light of the picture dim.", lambda p: p.mean() < 80),
    ]
    for instruction, is_done in cases:
        with subtests.test(instruction=instruction):
            outcome = _edit(editor, _jpeg(_grain()), instruction)
            assert isinstance(outcome, EditedPicture)
            assert (outcome.width_px, outcome.height_px) == (300, 200)
            assert is_done(np.asarray(_opened(outcome.image)))


def test_objects_in_photographs_and_grey_photographs_are_not_changed(editor: ImageEditor) -> None:
    outcome = _edit(editor, _jpeg(_grain()), "Change the colour of the car from red to blue.")
    assert isinstance(outcome, EditFailure)
    assert outcome.reason == "nothing_read"
    grey = _jpeg(_grain().convert("L").convert("RGB"))
    outcome = _edit(editor, grey, "Redraw the picture as a black-and-white picture.")
    assert isinstance(outcome, EditFailure)
    assert outcome.reason == "nothing_to_change"
