"""Refusals and chatter are distinguished from captions that quote them or only sound like them."""

import pytest

from flows.answers import chatter_in, refusal_in

REFUSALS = (
    "I'm sorry, but I can't identify people in images.",
    "I’m really sorry, but I cannot help with that.",
    "Sorry, I can't assist with that request.",
    "I can't help with identifying people.",
    "I am unable to view images.",
    "I apologize, but this is against our guidelines.",
    "Unfortunately, I cannot describe this picture.",
    "As an AI, I do not have eyes.",
    "As a large language model, I have no opinion.",
    "It shows two people, but I won't identify them.",
    '"I cannot describe real people."',
    "We are not able to process this image.",
    "My apologies, this cannot be done.",
)
CAPTIONS = (
    'A card that reads "I\'m sorry" lies on a table.',
    "A poster reads “I can't help falling in love”.",
    "A T-shirt that reads I can't help it.",
    "A sign says «Sorry, we are closed».",
    "A sorry dog lies on a rug.",
    "A robot as an aid in a ward.",
    "A man who cannot see leads a dog.",
    "Here is a dog: it sleeps.",
    "The answer is 42: a sum on a board.",
    "Sure footing: a goat on a rock.",
    "A version of the Mona Lisa: she wears a hat.",
    "A girl makes her apologies.",
)


def test_refusals_are_found(subtests: pytest.Subtests) -> None:
    for text in REFUSALS:
        with subtests.test(text=text):
            assert refusal_in(text)


def test_captions_are_none(subtests: pytest.Subtests) -> None:
    for text in CAPTIONS:
        with subtests.test(text=text):
            assert refusal_in(text) is None
            assert chatter_in(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here is the caption: A dog.",
        "Here's a rewritten version: A dog.",
        "Certainly, I have looked at it. A dog.",
        "Here are the captions you asked for: A dog.",
    ],
)
def test_chatter_is_found(text: str) -> None:
    assert chatter_in(text)
