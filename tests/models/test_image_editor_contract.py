"""Contract tests of image editors, including real pipelines with tiny random weights."""

import io
import json
from collections.abc import Iterator

import pytest
from PIL import Image

from loupe.models.image_editor import ImageEditor
from loupe.schemas.chat import ChatImage
from loupe.schemas.image_edit import EditedPicture, EditFailure, EditOutcome, EditRequest
from tests.models.tiny_editors import EDITORS, Subject

pytestmark = pytest.mark.slow

BROKEN = ChatImage(media_type="image/png", data=b"\x89PNG no picture")


@pytest.fixture(scope="module", params=EDITORS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    if "qwen" in request.param:
        pytest.importorskip("diffusers")
    return EDITORS[request.param](tmp_path_factory.mktemp("tiny-editor") / "pipeline")


def run(subject: Subject, *requests: EditRequest) -> list[EditOutcome]:
    outcomes = list(subject.editor.edit(iter(requests)))
    assert [position for position, _ in outcomes] == list(range(len(requests)))
    return [outcome for _, outcome in outcomes]


def pixels(outcome: EditOutcome) -> bytes:
    assert isinstance(outcome, EditedPicture), outcome
    with Image.open(io.BytesIO(outcome.image.data)) as picture:
        return picture.tobytes()


def test_requests_are_taken_lazily_and_each_image_is_changed_in_its_size(subject: Subject) -> None:
    editor = subject.editor
    assert isinstance(editor, ImageEditor)
    assert editor.ref.name
    assert editor.ref.revision
    assert json.loads(json.dumps(editor.parameters)) == editor.parameters
    taken = []

    def requests() -> Iterator[EditRequest]:
        for request in subject.requests:
            taken.append(request)
            yield request

    edits = editor.edit(requests())
    first = next(edits)
    assert len(taken) == 1
    outcomes = [outcome for _, outcome in (first, *edits)]
    for request, outcome in zip(subject.requests, outcomes, strict=True):
        assert isinstance(outcome, EditedPicture)
        with Image.open(io.BytesIO(request.image.data)) as given:
            size, before = given.size, given.convert("RGB").tobytes()
        with Image.open(io.BytesIO(outcome.image.data)) as picture:
            assert (picture.format, picture.mode) == ("PNG", "RGB")
            assert picture.size == size == (outcome.width_px, outcome.height_px)
            assert picture.tobytes() != before
        assert outcome.image.media_type == "image/png"
        assert outcome.seconds >= 0
    assert run(subject) == []


def test_equal_requests_give_equal_images_in_any_batch(subject: Subject) -> None:
    first, second = subject.requests[:2]
    together = run(subject, first, second, first)
    assert pixels(together[0]) == pixels(together[2])
    assert pixels(run(subject, second)[0]) == pixels(together[1])
    assert pixels(together[0]) != pixels(together[1])


def test_an_undecodable_image_does_not_affect_the_other_requests(
    subject: Subject,
) -> None:
    good = subject.requests[0]
    broken = good.model_copy(update={"image": BROKEN})
    outcomes = run(subject, broken, good)
    assert isinstance(outcomes[0], EditFailure)
    assert outcomes[0].reason == "image_unreadable"
    assert not outcomes[0].retriable
    assert isinstance(outcomes[1], EditedPicture)
