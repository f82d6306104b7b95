"""Which captions of sources are no descriptions."""

import json
from pathlib import Path

import pytest

from loupe.checks.source_captions import source_defect

CAPTIONS = Path("../shared/data/coco_captions/annotations.jsonl")


@pytest.mark.parametrize(
    "text",
    [
        "TODO",
        "N/A",
        "todo: describe",
        "00012.jpg",
        "import os for i in range(10): print(i)",
        'for (int i = 0; i < 10; i++) { printf("%d", i); }',
        "SELECT * FROM captions;",
        "console.log('x')",
        "<p>A man in red</p>",
        "https://example.org/a.jpg",
        "Ein Mann mit schwarzer Jacke geht die Straße entlang.",
        "一个穿红色外套的女人。",
        "She wears a coat â€” a red one.",
        "No caption available.",
        "Description to be added later.",
        "Photo of",
        "caption goes here",
        "This is a test caption.",
        "Image could not be loaded.",
        "photo 12",
        "Sorry, I cannot describe this image.",
        "I don't know what is in this picture, sorry.",
        "A room with large windows. TODO check the flowers",
        "A man walks his dog. A man walks his dog. A man walks his dog.",
    ],
)
def test_what_is_no_description_is_found(text: str) -> None:
    assert source_defect(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "The man is wearing a white shirt,blue jeans and shoes.",
        "She has black hair,she is wearing a pink blouse...",
        "THE WOMAN IS WEARING A RED COAT.",
        "The woman has long black hair .She wears a coat ,",
        'A man w/ a bag & a t-shirt that says "NY',
        "A woman with brown hair, wearing a black jacket(with white stripes)",
        "A woman wears a purple dress。，and holds a phone.",
        "man in red",
        "I see a man with a T- shirt",
        "A photo of a blank white wall.",
    ],
)
def test_slips_of_people_are_no_alarm(text: str) -> None:
    assert source_defect(text) is None


@pytest.mark.skipif(not CAPTIONS.is_file(), reason=f"{CAPTIONS} is not on this machine")
def test_real_captions_are_no_alarm() -> None:
    records = map(json.loads, CAPTIONS.read_text(encoding="utf-8").splitlines())
    texts = [one["caption"] for record in records for one in record["captions"]]
    assert [text for text in texts if source_defect(text)] == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("zh", "一位穿着红色外套的女子站在街边，手里提着一个黑色的包。"),
        ("zh", "两只狗在沙滩上奔跑。"),
        ("ru", "Женщина в красном пальто несёт чёрную сумку."),
        ("de", "Eine Frau in einem roten Mantel trägt eine schwarze Tasche."),
    ],
)
def test_captions_are_judged_in_the_language_of_the_dataset(language: str, text: str) -> None:
    assert source_defect(text, language) is None
    assert source_defect(text, "en") is not None
