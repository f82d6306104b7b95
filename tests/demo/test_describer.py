"""The built-in describer states clothes of drawn people correctly and nothing else."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loupe.checks.person.lexicon import load_lexicon
from loupe.checks.person.parser import parse_description
from loupe.demo.describer import COLOURS, NAMES, lab_of, nearest_names, read_crop
from loupe.demo.worlds import DemonstrationWorld, load_truth, write_people_world
from loupe.demo.worlds.people import Person
from loupe.models.chat import ChatModel
from loupe.models.registry import build_chat_model
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatRequest
from loupe.schemas.faithfulness import Attribute
from loupe.schemas.profile import BuiltinDescriber

LEAST_RIGHT = 0.85


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> DemonstrationWorld:
    return write_people_world(tmp_path_factory.mktemp("people"), 11, 1, 1, 0)


def people(world: DemonstrationWorld) -> Iterator[tuple[Person, Image.Image]]:
    """Yield every drawn person with the crop that a detector would give."""
    truth = load_truth(world.folder)
    for source in world.sources:
        for identity in truth[source.name]:
            for image in identity.images:
                with Image.open(Path(source.images) / image.file_path) as picture:
                    yield identity.person, picture.convert("RGB").crop(image.figure)


def canonical(colour: str) -> str:
    """Return the lexicon's name of a drawn colour, without its shade."""
    plain = {"dark blue": "navy", "dark red": "maroon", "gray": "grey"}.get(colour, colour)
    plain = plain.removeprefix("dark ").removeprefix("light ")
    return {"gray": "grey"}.get(plain, plain)


def is_right(names: tuple[str, ...], true: str) -> bool:
    lexicon = load_lexicon()
    return any(lexicon.are_near("colours", canonical(one), canonical(true)) for one in names)


def test_colours_of_clothes_are_stated_correctly(
    world: DemonstrationWorld,
) -> None:
    upper, lower = [], []
    for person, crop in people(world):
        reading = read_crop(np.asarray(crop))
        worn = person.jacket.colour if person.jacket else person.upper.colour
        upper.append(is_right(reading.upper.names, worn))
        lower.append(is_right(reading.lower.names, person.lower.colour))
    assert len(upper) > 20
    assert np.mean(upper) >= LEAST_RIGHT
    assert np.mean(lower) >= LEAST_RIGHT


def test_colour_names_are_those_of_the_lexicon() -> None:
    anchors = lab_of(np.array(list(COLOURS.values()), np.uint8)[None])[0]
    assert [NAMES[index] for index in nearest_names(anchors)] == list(NAMES)
    known = {word for phrase in load_lexicon().meanings for word in phrase}
    assert {word for name in NAMES for word in name.split()} <= known


def test_styles_differ_are_deterministic_and_state_only_visible_facts() -> None:
    plain, flowing = BuiltinDescriber(), BuiltinDescriber(style="flowing")
    for model in (plain, flowing):
        text = describe(model, figure())
        assert "red" in text
        assert "navy" in text
        facts = {fact.attribute for fact in parse_description(text).facts()}
        assert not facts & {Attribute.SEX, Attribute.AGE, Attribute.BUILD, Attribute.SKIN}, text
    assert describe(plain, figure()) == describe(plain, figure())
    assert describe(plain, figure()) != describe(flowing, figure())


def test_a_request_without_an_image_is_refused() -> None:
    request = ChatRequest(purpose="test", prompt="Describe.", prompt_digest="0")
    [(position, outcome)] = build_chat_model(BuiltinDescriber()).answer([request])
    assert position == 0
    assert isinstance(outcome, ChatFailure)
    assert not outcome.retriable


def figure() -> Image.Image:
    """Draw a narrow red and navy figure with black hair on a green background."""
    picture = Image.new("RGB", (60, 150), COLOURS["green"])
    for box, colour in (
        ((22, 1, 38, 16), "black"),
        ((20, 24, 40, 75), "red"),
        ((22, 75, 38, 150), "navy"),
    ):
        picture.paste(COLOURS[colour], box)
    return picture


def describe(specification: BuiltinDescriber, picture: Image.Image) -> str:
    model = build_chat_model(specification)
    assert isinstance(model, ChatModel)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    image = ChatImage(media_type="image/png", data=buffer.getvalue())
    request = ChatRequest(purpose="test", prompt="Describe.", prompt_digest="0", images=(image,))
    [(_, outcome)] = model.answer([request])
    assert isinstance(outcome, ChatAnswer)
    return outcome.text


def test_clothes_with_the_colour_of_the_street_are_unknown() -> None:
    street = np.full((128, 56, 3), (120, 122, 118), np.uint8)
    assert read_crop(street).upper.names == ()
    assert "unknown upper clothes" in describe(BuiltinDescriber(), Image.fromarray(street))
