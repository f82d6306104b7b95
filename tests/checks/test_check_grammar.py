"""The grammar check: planted faults are found, and correct captions pass."""

import json
from pathlib import Path

import pytest

from loupe.checks.grammar import check_grammar, words_in

REAL = Path("../shared/data/coco_captions/annotations.jsonl")

RIGHT = """
A man in a blue shirt stands to the left of a red car.
Two men in a boat are rowing.
Two men and a woman are riding horses on a beach.
A man and a woman are sitting on a bench.
A group of people is standing around a table.
A couple are sitting on a bench.
An elderly couple are walking a dog.
A pair of scissors is lying on a desk.
Three brown dogs, two of them running, play on the grass.
The dogs in the car are asleep.
The sum of 3 and 4 on lined paper is 7.
12 × 7 = 84, handwritten in blue ink.
A triangle with base 6 cm and height 4 cm has an area of 12 cm².
The code uses print() and a while loop; its output is 42.
A Python program with a for loop prints 12.
The sign reads "出口", which means exit.
The sign says "Stop hear" in white letters.
A double-decker bus passes a row of parked motorbikes.
A snowboarder in a grey jacket catches air above a halfpipe.
A snowboarder in a gray jacket holds his board.
A pizza with pepperoni, olives and mozzarella on a wooden cutting board.
A tennis player in white swings her racket at the ball.
There are 4 bananas and 2 apples in a wicker basket.
There are a couple of birds on the wire.
There is one apple and there are two pears.
The two man tent is green.
Lionel Messi, in a striped jersey, dribbles past a defender.
a bike parked next to a street
Man riding a skateboard down a ramp.
The angle α of the triangle is 30°.
The sheep are grazing behind a fence.
A woman watches as two children play.
The car that two men push is red.
A fruit stand with apples stands beside the road.
Two bus rides are on the ticket.
"Stopp" is written on a board.
A "No Parking" sign stands by a x * 2 formula and a 3 - 1 formula.
The file is called grade.py and prints max(xs).
The variable total starts at 0 and grows by i * 4 in each round.
N runs over range(9), and w.upper() is called for each word.
The kitchen has white cabinets and a steel stove.
""".strip().splitlines()

WRONG = {
    "A cat sleeps sleeps here.": ("RepeatedWord", "sleeps sleeps", "sleeps"),
    "A man is riding a a horse.": ("RepeatedWords", "a a", "a"),
    "A red car parked by the the street.": ("RepeatedWords", "the the", "the"),
    "A apple lies on the table.": ("AnA", "A", "An"),
    "A man wears an blue shirt.": ("AnA", "an", "a"),
    "A womn wears a red hat.": ("SpellCheck", "womn", "woman"),
    "He go to school.": ("PronounVerbAgreement", "go", "goes"),
    "She is more taller than him.": ("AdjectiveDoubleDegree", "more taller", "taller"),
    "A group of motorists in asia.": ("SpellCheck", "asia", "Asia"),
}


def test_a_correct_caption_has_no_finding(subtests: pytest.Subtests) -> None:
    for text in RIGHT:
        with subtests.test(text=text):
            assert check_grammar(text) == ()


def test_a_planted_fault_is_found_with_its_position(
    subtests: pytest.Subtests,
) -> None:
    for text in WRONG:
        with subtests.test(text=text):
            rule, fault, right = WRONG[text]
            found = check_grammar(text)
            assert [(one.rule, text[one.start : one.end]) for one in found] == [(rule, fault)]
            assert found[0].message
            fixed = text[: found[0].start] + right + text[found[0].end :]
            assert check_grammar(fixed) == ()


def test_another_language_is_the_only_finding(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, str]] = [
        ("Un homme est assis sur un banc dans le parc.", "Un homme", "'fr'"),
        ("Ein Mann sitzt auf einer Bank.", "Ein Mann", "'de'"),
        ("Женщина в красном пальто.", "Женщина", "Cyrillic"),
        ("一个男人 rides a horse.", "一个男人", "CJK"),
        ("A man rides 自行车 are.", "自行车", "CJK"),
    ]
    for text, part, language in cases:
        with subtests.test(text=text, part=part, language=language):
            (found,) = check_grammar(text)
            assert found.rule == "Language"
            assert text[found.start :].startswith(part)
            assert language in found.message


def faults(text: str, known_words: frozenset[str] = frozenset()) -> list[str]:
    return [text[one.start : one.end] for one in check_grammar(text, known_words)]


def test_known_words_are_accepted() -> None:
    text = "Zxyqua stands near the Blorft in 出口 street with a frobnitz."
    assert check_grammar(text)[0].rule == "Language"
    known = frozenset(("Zxyqua", "出口", "frobnitz"))
    assert check_grammar(text, known_words=known) == ()
    assert words_in(["A frobnitz: 出口.", "Zxyqua's."]) == {"A", "frobnitz", "出口", "Zxyqua's"}
    assert faults(text, frozenset(("出口",))) == ["Zxyqua", "frobnitz"]


def test_real_captions_have_almost_no_findings() -> None:
    if not REAL.exists():
        pytest.skip("../shared/data/coco_captions is not here")
    lines = REAL.read_text(encoding="utf-8").splitlines()
    texts = [one["caption"] for line in lines for one in json.loads(line)["captions"]]
    assert len(texts) == 50
    assert [found for text in texts if (found := faults(text))] == [["asia"]]
