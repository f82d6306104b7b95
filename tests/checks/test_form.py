"""What a caption may consist of: good texts of several domains pass, other forms do not."""

import json

import pytest

from loupe.checks.form import form_defect
from loupe.checks.text import CAPTION, Form
from tests.annotate.interfaces.proposed import PHOTOGRAPHS
from tests.checks.forms import Spoil, bad_forms, described
from tests.person_sets import REAL, own_texts, real_texts


def test_descriptions_and_their_rewrites_have_the_form_of_captions() -> None:
    for one in described():
        form = Form(one.language)
        for text in (one.source, *one.good):
            assert form_defect(text, form) is None, text
            assert form_defect(text, form, one.source) is None, text


def test_no_other_form_is_accepted() -> None:
    accepted = [
        f"{one.domain}, {name}: {text}"
        for one in described()
        for name, spoil in bad_forms(one.language).items()
        for text in (spoil(one.source, good) for good in one.good)
        if form_defect(text, Form(one.language), one.source) is None
    ]
    assert not accepted


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


IN_LANGUAGES = {
    "fr": "Une femme aux longs cheveux bruns marche dans la rue ; elle porte un manteau rouge.",
    "hi": "सड़क पर लंबे भूरे बालों वाली एक महिला लाल कोट पहने चल रही है।",
    "ar": "في الشارع تمشي امرأة شعرها طويل وبني، ترتدي معطفا أحمر.",
    "fa": "زنی با موهای بلند قهوه‌ای در خیابان راه می‌رود و کت قرمز پوشیده است.",
    "ja": "長い茶色の髪の女性が赤いコートを着て、通りを歩いている。",
    "ko": "긴 갈색 머리의 여자가 빨간 코트를 입고 거리를 걷고 있다.",
    "ru": "По улице идёт женщина с длинными каштановыми волосами, в красном пальто.",
    "th": "บนถนนมีผู้หญิงผมยาวสีน้ำตาลสวมเสื้อโค้ทสีแดง เดินถือกระเป๋าสีดำใบเล็ก",
    "tr": "Sokakta uzun kahverengi saçlı, kırmızı paltolu bir kadın yürüyor.",
}
SPOILED: dict[str, Spoil] = {
    "english tail": lambda _, t: f"{t} The weather is lovely today.",
    "tokens": lambda _, t: f"{t[:9]} Ġ{t[9:]}",
    "letters": lambda _, t: " ".join(t.replace(" ", "")),
    "literal": lambda _, t: f"f'{t}'",
    "loop": lambda _, t: f"{t[:-1]} xyz uvw xyz uvw xyz uvw{t[-1]}",
    "in brackets": lambda _, t: f"[{t}]",
}


@pytest.mark.parametrize(("language", "text"), IN_LANGUAGES.items())
def test_texts_are_judged_by_the_writing_of_their_language(language: str, text: str) -> None:
    form = Form(language)
    assert form_defect(text, form, text) is None
    for name, spoil in SPOILED.items():
        assert form_defect(spoil("", text), form, text) is not None, name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('A man carries a 27" screen and a bag.', None),
        ("A black-and-white-striped shirt hangs on a wall.", None),
        ("A wall with cracks, I-beams and a door.", None),
        ("The-red-bus-waits-at-it now.", "gibberish"),
        (f"A {'very' * 12} long word is here.", "gibberish"),
        ("Hey there, The man walks along the street.", "markup"),
        ("Hello friend, A man walks along the street.", "markup"),
        ("A man and a bag and a bag and a bag and a bag.", "repetition"),
        ("A man, a plan, a man.", None),
    ],
)
def test_odd_words_and_places_of_words_are_refused(text: str, reason: str | None) -> None:
    defect = form_defect(text)
    assert (defect and defect.reason) == reason


@pytest.mark.parametrize("language", ["de", "es", "tr"])
def test_a_text_set_like_a_title_is_refused_in_any_language(language: str) -> None:
    one = {
        "de": "Eine Frau mit einem roten Mantel geht auf der Straße und trägt eine Tasche.",
        "es": "Una mujer con abrigo rojo camina por la calle y lleva un bolso negro.",
        "tr": IN_LANGUAGES["tr"],
    }[language]
    assert form_defect(one, Form(language)) is None
    defect = form_defect(one.title(), Form(language))
    assert (defect and defect.reason) == "all_capitals"
