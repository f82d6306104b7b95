"""What a caption may consist of: good texts of several domains pass, other forms do not."""

import json

import pytest

from loupe.checks.form import form_defect
from loupe.checks.text import CAPTION, Form
from tests.annotate.interfaces.proposed import PHOTOGRAPHS
from tests.checks.forms import Described, Spoil, bad_forms, described
from tests.person_sets import REAL, own_texts, real_texts

CASES = [
    pytest.param(one, name, spoil, id=f"{one.domain}: {name}")
    for one in described()
    for name, spoil in bad_forms(one.language).items()
]


@pytest.mark.parametrize("one", described(), ids=lambda one: str(one.domain))
def test_descriptions_and_their_rewrites_have_the_form_of_captions(one: Described) -> None:
    form = Form(one.language)
    for text in (one.source, *one.good):
        assert form_defect(text, form) is None, text
        assert form_defect(text, form, one.source) is None, text


@pytest.mark.parametrize(("one", "name", "spoil"), CASES)
def test_no_other_form_is_accepted(one: Described, name: str, spoil: Spoil) -> None:
    for good in one.good:
        text = spoil(one.source, good)
        assert form_defect(text, Form(one.language), one.source) is not None, text


@pytest.mark.skipif(not REAL.exists(), reason="needs published descriptions and captions")
def test_published_texts_have_the_form_of_captions() -> None:
    rows = (PHOTOGRAPHS / "annotations.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [one["caption"] for row in rows for one in json.loads(row)["captions"]]
    assert [one for one in captions if form_defect(one, CAPTION)] == []
    assert [one for one in (*real_texts(), *own_texts()) if form_defect(one)] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('A sign reads "Keep out of the yard, please" beside a gate.', None),
        ('It has "Keep out of the yard, please" on it.', "markup"),
        ('"Keep out of the yard, please, as the dogs bite," it says.', "markup"),
    ],
)
def test_a_text_may_quote_but_is_no_quotation(text: str, reason: str | None) -> None:
    """From three fifths in quotation marks on, a text is one."""
    defect = form_defect(text, CAPTION)
    assert (defect and defect.reason) == reason
