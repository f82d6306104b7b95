import json

from loupe.sources.records import raw_text, shown


def test_raw_text_is_shortened_and_states_its_full_length() -> None:
    text = raw_text({"captions": ["é" * 5000]})
    assert text.startswith('{"captions": ["é')
    assert text.endswith("… (5,018 characters)")
    assert raw_text([1, "é"]) == '[1, "é"]'
    assert len(shown("x" * 1000)) < 120


def test_characters_outside_utf8_are_escaped() -> None:
    assert raw_text(["\ud800"]) == '["\\ud800"]'
    assert json.loads(raw_text("\x00")) == "\x00"


def test_deeply_nested_values_are_not_shown() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert raw_text(deep) == shown(deep) == "(nested too deeply to be shown)"
