"""How often edits of drawn stills come out as asked, and their captions are true.

python -m benchmarks.stills_editing [--stills 150] [--seed 977]
"""

import argparse
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from PIL import Image

from benchmarks.contrast_truth import content_after, faults, true_content
from models.builtin.contrasts import StillsContraster, is_exactly_true
from models.builtin.editor.changes import Change, Rain, read
from models.builtin.editor.model import StillsEditor
from models.builtin.stills.reading import Content, content_of_image
from models.builtin.stills.seeing import see_still
from schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatRequest
from schemas.image_edit import BuiltinEditor, EditedPicture, EditRequest
from schemas.profile import BuiltinContraster
from schemas.requests import (
    CAPTIONS_FIELD,
    REFINEMENT_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    RefinementBrief,
    StrategyBrief,
)
from sources.demonstration.stills.writing import StillTruth, draw_still, jpeg_of, plan_stills

SEED = 977
_MODEL, _EDITOR = StillsContraster(BuiltinContraster()), StillsEditor(BuiltinEditor())
_LARGEST_GROUP = 4


class Contrast(NamedTuple):
    """A strategy that was carried out, and what is true of the image that came of it."""

    strategy: dict[str, str]
    change: Change
    image: ChatImage
    content: Content


class Tally:
    """Right ones of all, by what was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.right: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, name: str, wrong: list[str], about: str) -> None:
        """One more answer; right if nothing is wrong with it."""
        self.asked[name] += 1
        self.right[name] += not wrong
        self.wrong += [f"{name}: {about}: {one}" for one in wrong]

    def share(self, prefix: str = "") -> float:
        """Of all questions whose name begins so, how many were answered rightly."""
        names = [name for name in self.asked if name.startswith(prefix)]
        return sum(self.right[name] for name in names) / max(
            1, sum(self.asked[name] for name in names)
        )


def measure(count: int, seed: int) -> Tally:
    """Contrasts of `count` stills: proposed, made, and distinguished by captions."""
    tally = Tally()
    for still in plan_stills(seed, count):
        picture, truth = draw_still(still, seed)
        anchor = ChatImage(media_type="image/jpeg", data=jpeg_of(picture))
        contrasts = list(_contrasts(anchor, truth, tally))[: _LARGEST_GROUP - 1]
        if contrasts:
            _refine(anchor, truth, contrasts, tally)
    return tally


def _contrasts(anchor: ChatImage, truth: StillTruth, tally: Tally) -> Iterator[Contrast]:
    caption = truth.captions[truth.image_id % 5]
    brief = StrategyBrief(caption=caption)
    answer = _ask(STRATEGY_PURPOSE, brief.text(), (anchor,))
    about = f"still {truth.image_id}"
    tally.add("three strategies", _too_few(answer), about)
    if isinstance(answer, ChatFailure):
        return
    for strategy in json.loads(answer.text)[STRATEGIES_FIELD]:
        kind, instruction = strategy["type"], strategy["instruction"]
        change = read(instruction)
        request = EditRequest(image=anchor, instruction=instruction, seed=truth.image_id)
        [(_, outcome)] = _EDITOR.edit([request])
        done = isinstance(outcome, EditedPicture)
        tally.add("carried out", [] if done else [str(outcome)], f"{about}, {instruction}")
        if not isinstance(outcome, EditedPicture) or change is None:
            continue
        before, after = _picture(anchor), _picture(outcome.image)
        wrong = faults(truth, change, before, after)
        tally.add(f"edit: {kind}", wrong, f"{about}, {instruction}")
        content = content_after(truth, change, after)
        if content is not None:
            content = _as_it_lies(content, after)
            said = _caption_faults(
                strategy["caption"], content, [_as_it_lies(true_content(truth), before)], change
            )
            tally.add("contrastive caption", said, f"{about}, {strategy['caption']}")
        if content is not None and not wrong:
            yield Contrast(strategy, change, outcome.image, content)


def _refine(anchor: ChatImage, truth: StillTruth, contrasts: list[Contrast], tally: Tally) -> None:
    caption = truth.captions[(truth.image_id + 2) % 5]
    brief = RefinementBrief(
        images=len(contrasts) + 1,
        caption=caption,
        differences=tuple(f"{one.strategy['type']}: {one.strategy['plan']}" for one in contrasts),
    )
    images = (anchor, *(one.image for one in contrasts))
    answer = _ask(REFINEMENT_PURPOSE, brief.text(), images)
    about = f"still {truth.image_id}, {caption}"
    if isinstance(answer, ChatFailure):
        tally.add("refined group", [answer.detail], about)
        return
    tally.add("refined group", [], about)
    contents = [
        _as_it_lies(true_content(truth), _picture(anchor)),
        *(one.content for one in contrasts),
    ]
    changes = [None, *(one.change for one in contrasts)]
    for place, text in enumerate(json.loads(answer.text)[CAPTIONS_FIELD]):
        others = [
            content
            for number, content in enumerate(contents)
            if number != place
            and {type(changes[number]), type(changes[place])} != {Rain, type(None)}
        ]
        rainy = any(isinstance(one, Rain) for one in changes)
        wrong = _caption_faults(text, contents[place], others, changes[place])
        if rainy and changes[place] is None and "dry weather" not in text:
            wrong.append("nothing of the weather")
        tally.add("refined caption", wrong, f"still {truth.image_id}, {text}")


def _as_it_lies(content: Content, image: Image.Image) -> Content:
    """What is true of an image, with how its things are seen to lie to each other."""
    return content._replace(relations=content_of_image(see_still(image)).relations)


def _caption_faults(
    text: str, content: Content, others: list[Content], change: Change | None
) -> list[str]:
    wrong = [] if is_exactly_true(text, content) else ["untrue of its image"]
    if isinstance(change, Rain):
        return wrong if "rainy weather" in text else [*wrong, "nothing of the weather"]
    if any(is_exactly_true(text, other) for other in others):
        wrong.append("true of another image")
    return wrong


def _too_few(answer: ChatAnswer | ChatFailure) -> list[str]:
    if isinstance(answer, ChatFailure):
        return [answer.detail]
    found = json.loads(answer.text)[STRATEGIES_FIELD]
    return [] if len(found) >= 3 else [f"only {len(found)}"]


def _ask(purpose: str, subject: str, images: tuple[ChatImage, ...]) -> ChatAnswer | ChatFailure:
    request = ChatRequest(
        purpose=purpose, prompt="see the brief", prompt_digest="0", subject=subject, images=images
    )
    [(_, outcome)] = _MODEL.answer([request])
    return outcome


def _picture(image: ChatImage) -> Image.Image:
    with Image.open(io.BytesIO(image.data)) as picture:
        return picture.convert("RGB")


def main() -> None:
    """Measures, and says what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stills", type=int, default=150)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--faults", type=int, default=12, help="how many faults to show")
    options = parser.parse_args()
    started = time.perf_counter()
    tally = measure(options.stills, options.seed)
    for name in sorted(tally.asked):
        right, asked = tally.right[name], tally.asked[name]
        print(f"{name}: {right} of {asked} ({100 * right / asked:.1f} %)")
    print(f"all edits: {100 * tally.share('edit'):.1f} %")
    print(*tally.wrong[: options.faults], sep="\n")
    print(f"{(time.perf_counter() - started) / options.stills:.2f} s an anchor")


if __name__ == "__main__":
    main()
