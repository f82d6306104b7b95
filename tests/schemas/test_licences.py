"""Every licence has one name for all its spellings; unknown licences do not permit a release."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.licences import (
    PUBLIC_DOMAIN,
    US_GOVERNMENT_WORK,
    licence_name,
    nearest_licence,
    one_of,
    permits_release,
)

CC = "https://creativecommons.org"
# Names and addresses as in `licenses` of COCO's instance lists.
COCO = [
    ("Attribution-NonCommercial-ShareAlike License", "by-nc-sa"),
    ("Attribution-NonCommercial License", "by-nc"),
    ("Attribution-NonCommercial-NoDerivs License", "by-nc-nd"),
    ("Attribution License", "by"),
    ("Attribution-ShareAlike License", "by-sa"),
    ("Attribution-NoDerivs License", "by-nd"),
]
CODES = ["by", "by-sa", "by-nc", "by-nd", "by-nc-sa", "by-nc-nd"]
VERSIONS = ["1.0", "2.0", "2.5", "3.0", "4.0"]


def test_names_and_addresses_give_the_licence_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("cc-by-sa 4.0", "CC-BY-SA-4.0"),
        ("CC BY 2.0", "CC-BY-2.0"),
        ("by-nc", "CC-BY-NC"),
        ("Creative Commons Attribution-ShareAlike 4.0 International", "CC-BY-SA-4.0"),
        ("Attribution-NonCommercial-NoDerivatives 4.0", "CC-BY-NC-ND-4.0"),
        ("CC BY-SA 3.0 DE", "CC-BY-SA-3.0-DE"),
        ("CC-BY-3.0-IGO", "CC-BY-3.0-IGO"),
        ("cc0", "CC0-1.0"),
        ("CC0 1.0 Universal", "CC0-1.0"),
        ("Creative Commons Zero", "CC0-1.0"),
        ("pdm", "CC-PDM-1.0"),
        ("Public Domain Mark 1.0", "CC-PDM-1.0"),
        ("Public domain", PUBLIC_DOMAIN),
        (f"{CC}/licenses/by-sa/2.0/", "CC-BY-SA-2.0"),
        (f"{CC}/licenses/by-sa/3.0/de/deed.en", "CC-BY-SA-3.0-DE"),
        (f"{CC}/licenses/by/4.0/legalcode", "CC-BY-4.0"),
        ("http://www.creativecommons.org/licenses/by/2.5", "CC-BY-2.5"),
        (f"{CC}/publicdomain/zero/1.0/", "CC0-1.0"),
        (f"{CC}/publicdomain/mark/1.0/", "CC-PDM-1.0"),
        ("CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)", "CC-BY-4.0"),
        (
            "United States Government Work (http://www.usa.gov/copyright.shtml)",
            US_GOVERNMENT_WORK,
        ),
    ]
    for text, name in cases:
        with subtests.test(text=text, name=name):
            assert licence_name(text) == name
            assert licence_name(f"  {text.upper()} ") == name or "HTTP" in text.upper()
            assert licence_name(name) == name


def test_unknown_licences_have_no_name_and_do_not_permit_a_release(
    subtests: pytest.Subtests,
) -> None:
    cases: list[str | None] = [
        None,
        "",
        "all rights reserved",
        "by me",
        "unknown",
        "MIT",
        "CC",
        "CC BY-SA-ND",
        "CC BY 5.0",
        "CC BY 4.0, but ask first",
        "sampling+",
        f"{CC}/licenses/sampling+/1.0/",
        f"{CC}/licenses/nd/1.0/",
        "https://example.org/?terms=creativecommons.org/licenses/by/4.0/",
        "https://creativecommons.org.example.org/licenses/by/4.0/",
        "No known copyright restrictions (http://flickr.com/commons/usage/)",
        "All rights reserved (https://creativecommons.org/licenses/by/4.0/)",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert licence_name(text) is None
            assert not permits_release(text) or text == "MIT"  # SPDX has a name for it


def test_licences_of_coco_are_known(subtests: pytest.Subtests) -> None:
    for name, code in COCO:
        with subtests.test(name=name, code=code):
            address = f"http://creativecommons.org/licenses/{code}/2.0/"
            understood = licence_name(f"{name} ({address})")
            assert understood == licence_name(name, address) == f"CC-{code.upper()}-2.0"
            assert permits_release(understood) == ("nd" not in code)


def test_contradicting_text_and_address_give_no_licence(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str | None, str | None, str | None]] = [
        ("by", f"{CC}/licenses/by/2.0/", "CC-BY-2.0"),
        ("CC BY 2.0", f"{CC}/licenses/by/2.0/fr/", "CC-BY-2.0-FR"),
        ("public domain", f"{CC}/publicdomain/zero/1.0/", "CC0-1.0"),
        (None, f"{CC}/licenses/by/2.0/", "CC-BY-2.0"),
        ("by 3.0", "https://example.org/terms", "CC-BY-3.0"),
        ("by", f"{CC}/licenses/by-nd/2.0/", None),
        ("by", f"{CC}/licenses/by-nc/2.0/", None),
        ("by-nc", f"{CC}/licenses/by/2.0/", None),
        ("by 4.0", f"{CC}/licenses/by/2.0/", None),
        ("by", f"{CC}/licenses/sampling/1.0/", None),
        ("all rights reserved", f"{CC}/licenses/by/2.0/", None),
        (None, None, None),
    ]
    for text, url, name in cases:
        with subtests.test(text=text, url=url, name=name):
            assert licence_name(text, url) == name


@given(st.sampled_from(CODES), st.sampled_from(VERSIONS), st.sampled_from(["", "de", "uk", "igo"]))
def test_every_spelling_has_the_same_name(code: str, version: str, country: str) -> None:
    name = "-".join(filter(None, ["CC", code.upper(), version, country.upper()]))
    path = "/".join(filter(None, [code, version, country]))
    spellings = {
        name,
        name.casefold(),
        f"CC {code.upper()} {version} {country.upper()}".strip(),
        f"{CC}/licenses/{path}/",
        f"{CC}/licenses/{path}/deed.en",
        f"licence: ({CC}/licenses/{path}/)".removeprefix("licence: "),
    }
    assert {licence_name(spelling) for spelling in spellings} == {name}
    assert permits_release(name) == ("nd" not in code)


@given(st.text())
def test_the_name_of_a_licence_is_its_own_name(text: str) -> None:
    name = licence_name(text)
    assert name is None or licence_name(name) == name
    assert licence_name(None, text) is None or "commons" in text.casefold() or "usa.gov" in text


def test_additional_words_make_a_licence_unknown() -> None:
    for licence in ("CC BY", "CC0", "Public domain", "CC BY-SA 4.0", "pdm"):
        assert licence_name(licence) is not None
        for words in ("except portraits", "editorial use only", "or all rights reserved"):
            assert licence_name(f"{licence} {words}") is None
            assert licence_name(f"{licence}, {words}") is None


def test_one_of_several_licences_permits_only_what_all_permit() -> None:
    free, bound = one_of(["CC-BY", "CC0-1.0", "CC-BY"]), one_of(["CC-BY", "CC-BY-ND"])
    assert free == "one of CC-BY, CC0-1.0"
    assert permits_release(free)
    assert not permits_release(bound)
    assert not permits_release("one of CC-BY, something else")
    assert licence_name(free) == free
    assert licence_name("one of CC-BY, something else") is None


def test_a_misspelt_licence_is_recognised_and_terms_in_other_words_are_not(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[str, str | None]] = [
        ("CC-BY-4.O", "CC-BY-4.0"),
        ("CCBY4", "CC-BY-4.0"),
        ("CC BY 5.0", "CC-BY-4.0"),
        ("CC0-1", "CC0-1.0"),
        ("apache2", "Apache-2.0"),
        ("MIT License", "MIT"),
        ("CC BY 4.0", None),
        ("MIT OR CC-BY-4.0", None),
        ("LicenseRef-Ours", None),
        ("Research use only", None),
        ("internal", None),
        ("CC BY 4.0 (annotations)", None),
        ("", None),
    ]
    for text, meant in cases:
        with subtests.test(text=text):
            assert nearest_licence(text) == meant
