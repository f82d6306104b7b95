import re
from typing import Literal

import pytest

from loupe.demo.composer.rewriter import RuleRewriter
from loupe.flows.faithfulness import check_faithfulness
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import BuiltinRewriter, FaithfulnessSettings
from tests.person_sets import REAL, own_texts, real_texts

Style = Literal["plain", "flowing", "brief"]
MAN = (
    "A young man with short black hair wears a gray hoodie, blue jeans and white sneakers. "
    "He holds an orange umbrella in his left hand."
)


def rewriter(style: Style = "plain", seed: int = 0) -> RuleRewriter:
    return RuleRewriter(BuiltinRewriter(style=style, seed=seed))


def test_the_answer_depends_on_seed_and_text() -> None:
    assert rewriter(seed=1).rewrite(MAN) == rewriter(seed=1).rewrite(MAN)
    assert len({rewriter(seed=seed).rewrite(MAN) for seed in range(8)}) > 3


def test_the_brief_style_is_shorter() -> None:
    text = own_texts()[-2]
    assert len(rewriter("brief").rewrite(text)) < len(rewriter("plain").rewrite(text))


def test_the_sex_of_a_person_is_never_invented() -> None:
    cases = {
        "The person wears a red coat, black trousers and boots.": "he|she|his|her|man|woman",
        MAN: "she|her|they|their|woman",
    }
    for text, never in cases.items():
        for seed in range(10):
            rewrite = rewriter(seed=seed).rewrite(text)
            assert not re.search(rf"\b(?:{never})\b", rewrite, re.IGNORECASE), rewrite


def test_articles_agree_with_nouns() -> None:
    for seed in range(10):
        text = rewriter(seed=seed).rewrite(MAN)
        assert "an orange umbrella in his left hand" in text
        assert not re.search(r"\ba [aeio]\w|\ban [bcdfgjklmnpqrstvwxz]", text)


def test_the_frame_of_glasses_is_named() -> None:
    text = rewriter().rewrite("The man wears jeans and a coat; his glasses are black-rimmed.")
    assert "glasses with a black frame" in text, text


def test_captions_without_a_person_are_reordered() -> None:
    airplane = "A large white airplane and a person on a lot."
    for caption in (airplane, "Two dogs play in the snow", "Hm"):
        text = rewriter().rewrite(caption)
        assert text != caption
        assert text.endswith(".")
        words = set(re.findall(r"\w+", caption.lower()))
        assert words <= set(re.findall(r"\w+", text.lower())), text


@pytest.mark.slow
def test_rewrites_are_faithful_and_visibly_different() -> None:
    texts = [*own_texts()[::2], *(real_texts() if REAL.exists() else [])]
    styles: tuple[Style, ...] = ("plain", "flowing", "brief")
    pairs = [
        RewritePair(source=text, rewrite=rewriter(style).rewrite(text))
        for style in styles
        for text in texts
    ]
    results = [check_faithfulness(pair, FaithfulnessSettings()) for pair in pairs]
    faithful = [r for r in results if isinstance(r, FaithfulnessReport) and r.verdict == "faithful"]
    assert len(faithful) / len(pairs) >= 0.99
