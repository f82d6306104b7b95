"""What the editor says it did is done, and nothing else; what it cannot do it refuses."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from benchmarks.contrast_truth import faults
from flows.ccd.edit_measures import judge_edit, measure_edit
from models.builtin.drawing.people_and_signs import Figure
from models.builtin.drawing.vocabulary import Action, Place, Style
from models.builtin.editor.changes import read
from models.builtin.stills.reading import content_of_image
from models.builtin.stills.seeing import see_still
from models.image_editor import ImageEditor, build_image_editor
from schemas.chat import ChatImage
from schemas.contrast import EditCheckSettings
from schemas.image_edit import BuiltinEditor, EditedPicture, EditFailure, EditOutcome, EditRequest
from schemas.proposals import Box, EditMeasurement
from schemas.retrieval_task import RetrievalTask
from schemas.taxonomy import DifferenceType
from sources.demonstration.stills.composing import Group, Relation, Scene
from sources.demonstration.stills.writing import PlannedStill, draw_still, jpeg_of

_CAR, _CAT = Group(kind="car", colour="red"), Group(kind="cat", colour="black")
_FIGURE = Figure(action=Action.STANDING, shirt="green", trousers="blue", hat="red", skin="tan")


def _scene(**contents: object) -> Scene:
    given = {"task": RetrievalTask.COLOR, "place": Place.PARK, **contents}
    return Scene.model_validate(given)


_SCENES: dict[str, tuple[Scene, int]] = {
    "things": (_scene(groups=(_CAR, _CAT)), 5),
    "many": (_scene(groups=(Group(kind="fish", colour="orange", count=3), _CAT)), 4),
    "related": (
        _scene(task=RetrievalTask.LOCATION, groups=(_CAT, _CAR), relation=Relation.LEFT), 6,
    ),
    "person": (_scene(task=RetrievalTask.ACTION, groups=(_CAR,), figure=_FIGURE), 5),
    "sign": (_scene(task=RetrievalTask.OCR, groups=(_CAT,), sign="OPEN"), 6),
}  # fmt: skip


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


_OF_ANY_STYLE = [
    ("things", "Change the colour of the car from red to blue."),
    ("things", "Change the colour of the cat from black to white."),
    ("things", "Replace the red car by a red boat."),
    ("things", "Replace the park by a city at night."),
    ("many", "Change the colour of all fish from orange to purple."),
    ("many", "Replace all orange fish by orange balls."),
    ("related", "Move the black cat to the right of the red car."),
    ("person", "Change the colour of the shirt from green to white."),
    ("person", "Change the colour of the hat from red to black."),
    ("person", "Change what the person does from standing to waving."),
    ("person", "Change what the person does from standing to jumping."),
    ("sign", 'Change the word on the sign from "OPEN" to "SALE".'),
]
_OF_FLAT_DRAWINGS = [
    ("things", "Let it rain."),
    ("things", "Redraw the picture as a pencil sketch."),
    ("things", "Redraw the picture as a poster."),
]


def test_what_is_asked_is_done_and_nothing_else(
    subtests: pytest.Subtests, editor: ImageEditor
) -> None:
    cases: list[tuple[Style, str, str]] = [
        *((Style.FLAT, *case) for case in (*_OF_ANY_STYLE, *_OF_FLAT_DRAWINGS)),
        *((Style.POSTER, *case) for case in _OF_ANY_STYLE),
    ]
    for style, name, instruction in cases:
        with subtests.test(style=style, name=name, instruction=instruction):
            scene, seed = _SCENES[name]
            still = PlannedStill(
                image_id=1,
                scene=scene.model_copy(update={"style": style}),
                layout_seed=seed,
                family=0,
            )
            picture, truth = draw_still(still, 1)
            image = _jpeg(picture)
            outcome = _edit(editor, image, instruction)
            assert isinstance(outcome, EditedPicture), outcome
            assert (outcome.width_px, outcome.height_px) == picture.size
            change = read(instruction)
            assert change is not None
            assert faults(truth, change, _opened(image), _opened(outcome.image)) == []


def test_what_cannot_be_done_is_refused(subtests: pytest.Subtests, editor: ImageEditor) -> None:
    cases: list[tuple[str, str, str]] = [
        ("things", "Make it nicer.", "instruction_not_understood"),
        ("things", "Change the colour of the boat from red to blue.", "nothing_to_change"),
        ("things", "Change the colour of the car from green to blue.", "nothing_to_change"),
        ("things", "Change the colour of the car from red to red.", "nothing_to_change"),
        ("things", "Change the colour of the cat from black to green.", "not_drawable"),
        ("things", "Change the colour of the shirt from red to blue.", "nothing_to_change"),
        ("things", "Replace the red car by a red cat.", "not_drawable"),
        ("things", "Replace the beach by a desert.", "nothing_to_change"),
        ("things", "Make the light of the picture dim.", "not_drawable"),
        ("things", "Redraw the picture as a black-and-white picture.", "not_drawable"),
        ("sign", 'Change the word on the sign from "SALE" to "OPEN".', "nothing_to_change"),
        ("sign", 'Change the word on the sign from "OPEN" to "MUSEUM".', "no_room"),
        ("person", "Change what the person does from running to waving.", "nothing_to_change"),
        ("related", "Move the black cat to the left of the red car.", "nothing_to_change"),
    ]
    for name, instruction, reason in cases:
        with subtests.test(name=name, instruction=instruction, reason=reason):
            scene, seed = _SCENES[name]
            picture, _ = draw_still(
                PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1
            )
            outcome = _edit(editor, _jpeg(picture), instruction)
            assert isinstance(outcome, EditFailure)
            assert (outcome.reason, outcome.retriable) == (reason, False)
            assert outcome.detail


def _measured(
    picture: Image.Image, outcome: EditOutcome, regions: tuple[Box, ...]
) -> tuple[EditMeasurement, tuple[str, ...]]:
    """What changed, compared with some regions, and the doubts."""
    assert isinstance(outcome, EditedPicture), outcome
    kind, settings = DifferenceType.ENTITY_ATTRIBUTE, EditCheckSettings()
    measured = measure_edit(picture, _opened(outcome.image), kind, settings, regions=regions)
    doubts = judge_edit(measured, kind, settings)
    assert isinstance(doubts, tuple), doubts
    return measured, doubts


def test_it_knows_where_a_picture_is_to_change(
    subtests: pytest.Subtests, editor: ImageEditor
) -> None:
    cases: list[tuple[Style, str, str]] = [
        *((Style.FLAT, *case) for case in _OF_ANY_STYLE if "Replace the park" not in case[1]),
        (Style.FLAT, "things", "Remove the red car."),
        (Style.FLAT, "things", "Add a green umbrella."),
        (Style.POSTER, *_OF_ANY_STYLE[0]),
        (Style.MOSAIC, *_OF_ANY_STYLE[0]),
        (Style.MOSAIC, *_OF_ANY_STYLE[2]),
    ]
    for style, name, instruction in cases:
        with subtests.test(style=style, name=name, instruction=instruction):
            scene, seed = _SCENES[name]
            scene = scene.model_copy(update={"style": style})
            picture, _ = draw_still(
                PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1
            )
            outcome = _edit(editor, _jpeg(picture), instruction)
            assert isinstance(outcome, EditedPicture), outcome
            assert outcome.regions
            measured, doubts = _measured(picture, outcome, outcome.regions)
            assert measured.outside_share == pytest.approx(0, abs=0.002)
            assert doubts == ()


def test_a_change_of_all_has_no_region(editor: ImageEditor) -> None:
    scene, seed = _SCENES["things"]
    picture, _ = draw_still(PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1)
    for instruction in ("Replace the park by a street.", "Let it rain."):
        outcome = _edit(editor, _jpeg(picture), instruction)
        assert isinstance(outcome, EditedPicture)
        assert outcome.regions == ()


@pytest.mark.parametrize("size", [(320, 240), (800, 600)])
def test_the_wrong_thing_in_another_colour_is_doubted(
    editor: ImageEditor, size: tuple[int, int]
) -> None:
    scene, seed = _SCENES["things"]
    still = PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0)
    picture = draw_still(still, 1)[0].resize(size, Image.Resampling.BICUBIC)
    asked = _edit(editor, _jpeg(picture), "Change the colour of the car from red to blue.")
    done = _edit(editor, _jpeg(picture), "Change the colour of the cat from black to white.")
    assert isinstance(asked, EditedPicture)
    assert _measured(picture, asked, asked.regions)[1] == ()
    measured, doubts = _measured(picture, done, asked.regions)
    assert measured.outside_share == measured.changed_share
    assert "Next to nothing changed in the wanted region." in doubts


@pytest.mark.parametrize("instruction", ["Remove the red car.", "Add a green umbrella."])
def test_things_go_and_come(editor: ImageEditor, instruction: str) -> None:
    scene, seed = _SCENES["things"]
    picture, _ = draw_still(PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1)
    outcome = _edit(editor, _jpeg(picture), instruction)
    assert isinstance(outcome, EditedPicture)
    groups = content_of_image(see_still(_opened(outcome.image))).groups
    kinds = {(group.kind, group.colour) for group in groups}
    wanted = {("cat", "black")}
    assert kinds == (
        wanted if "Remove" in instruction else wanted | {("car", "red"), ("umbrella", "green")}
    )


def test_a_larger_drawing_keeps_its_size_and_all_that_did_not_change(editor: ImageEditor) -> None:
    scene, seed = _SCENES["things"]
    picture, truth = draw_still(
        PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1
    )
    large = picture.resize((640, 480), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    large.save(buffer, "PNG")
    image = ChatImage(media_type="image/png", data=buffer.getvalue())
    outcome = _edit(editor, image, "Change the colour of the car from red to yellow.")
    assert isinstance(outcome, EditedPicture)
    result = _opened(outcome.image)
    assert result.size == (640, 480)
    [car] = [thing for thing in truth.things if thing.kind == "car"]
    changed = np.argwhere((np.asarray(result) != np.asarray(large)).any(axis=2))
    assert changed.size
    (top, left), (bottom, right) = changed.min(axis=0), changed.max(axis=0)
    assert left >= 2 * car.left - 20
    assert right <= 2 * car.right + 20
    assert top >= 2 * car.top - 20
    assert bottom <= 2 * car.bottom + 20
    assert ("car", "yellow") in {(thing.kind, thing.colour) for thing in see_still(result).things}


def test_equal_requests_give_equal_images_and_another_seed_another_place(
    editor: ImageEditor,
) -> None:
    scene, seed = _SCENES["things"]
    picture, _ = draw_still(PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1)
    image, instruction = _jpeg(picture), "Replace the park by a street."
    outcomes = [_edit(editor, image, instruction, seed) for seed in (1, 1, 2)]
    data = [outcome.image.data for outcome in outcomes if isinstance(outcome, EditedPicture)]
    assert data[0] == data[1] != data[2]


def _grain() -> Image.Image:
    """Something like a photograph: no even areas, no ink."""
    generator = np.random.default_rng(3)
    coarse = generator.integers(60, 250, (12, 16, 3), np.uint8)
    smooth = Image.fromarray(coarse).resize((300, 200), Image.Resampling.BICUBIC)
    noise = generator.normal(0, 9, (200, 300, 3))
    return Image.fromarray(np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8))


def test_of_photographs_style_and_light_are_changed(
    subtests: pytest.Subtests, editor: ImageEditor
) -> None:
    cases: list[tuple[str, Callable[[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]], object]]] = [
        (
            "Redraw the picture as a black-and-white picture.",
            lambda p: np.ptp(p, axis=2).max() == 0,
        ),
        ("Redraw the picture as a pencil sketch.", lambda p: np.median(p) > 220),
        ("Redraw the picture as a poster.", lambda p: len(np.unique(p)) <= 6),
        ("Redraw the picture as a mosaic.", lambda p: p.shape == (200, 300, 3)),
        ("Make the light of the picture dim.", lambda p: p.mean() < 80),
    ]
    for instruction, is_done in cases:
        with subtests.test(instruction=instruction):
            outcome = _edit(editor, _jpeg(_grain()), instruction)
            assert isinstance(outcome, EditedPicture)
            assert (outcome.width_px, outcome.height_px) == (300, 200)
            assert is_done(np.asarray(_opened(outcome.image)))


def test_in_photographs_nothing_is_recoloured_and_grey_ones_stay_grey(editor: ImageEditor) -> None:
    outcome = _edit(editor, _jpeg(_grain()), "Change the colour of the car from red to blue.")
    assert isinstance(outcome, EditFailure)
    assert outcome.reason == "nothing_seen"
    grey = _jpeg(_grain().convert("L").convert("RGB"))
    outcome = _edit(editor, grey, "Redraw the picture as a black-and-white picture.")
    assert isinstance(outcome, EditFailure)
    assert outcome.reason == "nothing_to_change"


def test_broken_images_fail_alone(editor: ImageEditor) -> None:
    scene, seed = _SCENES["things"]
    picture, _ = draw_still(PlannedStill(image_id=1, scene=scene, layout_seed=seed, family=0), 1)
    broken = ChatImage(media_type="image/png", data=b"not an image")
    requests = [
        EditRequest(image=image, instruction="Let it rain.", seed=0)
        for image in (broken, _jpeg(picture), broken)
    ]
    outcomes = list(editor.edit(iter(requests)))
    assert [position for position, _ in outcomes] == [0, 1, 2]
    assert [isinstance(outcome, EditedPicture) for _, outcome in outcomes] == [False, True, False]
    assert isinstance(outcomes[0][1], EditFailure)
    assert outcomes[0][1].reason == "image_unreadable"
