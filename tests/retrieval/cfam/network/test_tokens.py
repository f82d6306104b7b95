import pytest
import torch

from loupe.retrieval.cfam.network.pairs import END, START, ClipTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> ClipTokenizer:
    return ClipTokenizer(168)


def test_texts_are_enclosed_by_start_and_end_tokens(tokenizer: ClipTokenizer) -> None:
    tokens = tokenizer(["a man", "a man in a red coat", ""])
    assert tokens.shape == (3, 168)
    assert tokens[0, :5].tolist() == [START, 320, 786, END, 0]
    assert tokens[2, :3].tolist() == [START, END, 0]


def test_tokens_equal_those_of_open_clip(tokenizer: ClipTokenizer) -> None:
    import open_clip

    texts = ["The woman’s bag is light-blue!!", "  Two\n coats, 42 buttons &amp; a hat "]
    assert torch.equal(tokenizer(texts), open_clip.SimpleTokenizer(context_length=168)(texts))


def test_long_texts_are_truncated_before_the_end_token() -> None:
    tokens = ClipTokenizer(10)(["red " * 50])[0]
    assert len(tokens) == 10
    assert tokens[0] == START
    assert tokens[-1] == END
    assert len(set(tokens[1:-1].tolist())) == 1


def test_special_tokens_in_a_text_are_ignored(tokenizer: ClipTokenizer) -> None:
    for mark in ("<end_of_text>", "<START_OF_TEXT>", "&lt;end_of_text&gt;"):
        honest, hostile = tokenizer(["a man in red", f"a man {mark} in red"])
        assert torch.equal(hostile, honest), mark
