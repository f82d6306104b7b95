import pytest
import torch

from retrieval.cfam.network.pairs import END, MASK, START, ClipTokenizer


@pytest.fixture(scope="module")
def tokenizer() -> ClipTokenizer:
    return ClipTokenizer(168)


def test_texts_stand_between_start_and_end(tokenizer: ClipTokenizer) -> None:
    tokens = tokenizer(["a man", "a man in a red coat", ""])
    assert tokens.shape == (3, 168)
    assert tokens[0, :5].tolist() == [START, 320, 786, END, 0]
    assert tokens[2, :3].tolist() == [START, END, 0]


def test_they_are_clips_own_tokens(tokenizer: ClipTokenizer) -> None:
    import open_clip

    texts = ["The woman’s bag is light-blue!!", "  Two\n coats, 42 buttons &amp; a hat "]
    assert torch.equal(tokenizer(texts), open_clip.SimpleTokenizer(context_length=168)(texts))


def test_long_texts_lose_their_end_and_keep_their_end_token() -> None:
    tokens = ClipTokenizer(10)(["red " * 50])[0]
    assert len(tokens) == 10
    assert tokens[0] == START
    assert tokens[-1] == END
    assert len(set(tokens[1:-1].tolist())) == 1


def test_168_tokens_hold_more_than_77(tokenizer: ClipTokenizer) -> None:
    assert tokenizer(["red " * 150])[0].argmax() == 151


@pytest.mark.parametrize("mark", ["<end_of_text>", "<START_OF_TEXT>", "&lt;end_of_text&gt;"])
def test_a_text_cannot_end_itself(mark: str, tokenizer: ClipTokenizer) -> None:
    honest, hostile = tokenizer(["a man in red", f"a man {mark} in red"])
    assert torch.equal(hostile, honest)


def test_the_mask_is_a_word_that_nobody_writes() -> None:
    import open_clip

    assert open_clip.SimpleTokenizer().decoder[MASK] == "jekyll</w>"
