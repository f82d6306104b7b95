"""Stated licences: names, SPDX expressions, and free text."""

import tomllib
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from license_expression import get_spdx_licensing

from loupe.schemas import licences
from loupe.schemas.licences import Conditions, is_compatible, licence_of, permits_release, spdx_page

BY = Conditions(("attribution",))
BY_SA = Conditions(("attribution", "share_alike"))
BY_NC = Conditions(("attribution", "non_commercial"))


def test_known_licences_are_parsed_to_spdx_expressions(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, Conditions | None]] = [
        ("CC BY 4.0", "CC-BY-4.0", BY),
        ("https://creativecommons.org/licenses/by-sa/3.0/", "CC-BY-SA-3.0", BY_SA),
        ("mit or cc-by-4.0", "MIT OR CC-BY-4.0", BY),
        ("CC0-1.0 OR CC-BY-NC-4.0", "CC0-1.0 OR CC-BY-NC-4.0", Conditions()),
        ("CC-BY-4.0 AND ODbL-1.0", "CC-BY-4.0 AND ODbL-1.0", BY_SA),
        ("CC-BY-4.0 AND (MIT OR ODbL-1.0)", "CC-BY-4.0 AND (MIT OR ODbL-1.0)", BY),
        (
            "CC-BY-ND-4.0 OR CC-BY-NC-4.0",
            "CC-BY-ND-4.0 OR CC-BY-NC-4.0",
            BY_NC,
        ),
        ("one of CC0-1.0, CC-BY-SA-4.0", "CC0-1.0 OR CC-BY-SA-4.0", BY_SA),
        ("public domain", "LicenseRef-Public-Domain", Conditions()),
        ("CC BY-NC", "LicenseRef-CC-BY-NC", BY_NC),
        ("CC BY-ND 4.0", "CC-BY-ND-4.0", None),
        ("CC-BY-4.0 AND CC-BY-ND-4.0", "CC-BY-4.0 AND CC-BY-ND-4.0", None),
        ("AGPL-3.0-only", "AGPL-3.0-only", None),
    ]
    for stated, expression, asked in cases:
        with subtests.test(stated=stated, expression=expression, asked=asked):
            known = licence_of(stated)
            assert known is not None
            assert known.expression == expression
            assert known.conditions == asked
            assert permits_release(stated) == (asked is not None)


def test_free_text_and_unknown_licences_are_not_parsed(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "Research use only, from the authors on request",
        "Unknown: the format names none",
        "unknown",
        "all rights reserved",
        "Captions CC BY 4.0; images under the Flickr terms of their authors",
        "LicenseRef-Ours",
        "CC-BY-4.0 AND LicenseRef-Ours",
        "GPL-2.0-only WITH Classpath-exception-2.0",
        "CC-BY-4.0 AND",
        "",
        "()",
    ]
    for stated in cases:
        with subtests.test(stated=stated):
            assert licence_of(stated) is None
            assert not permits_release(stated)


PIECES = [
    "MIT",
    "CC-BY-4.0",
    "AND",
    "or",
    "WITH",
    "(",
    ")",
    "+",
    "Classpath-exception-2.0",
    ",",
    "x",
]


@example("(AND 0")
@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=9).map(" ".join))
def test_any_text_is_parsed_or_unknown(stated: str) -> None:
    known = licence_of(stated)
    assert known is None or (known.conditions is None) == (not known.permitted)


def test_licences_allowed_for_an_edited_image(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, bool]] = [
        ("terms of use", "terms of use", True),
        ("terms of use", "CC-BY-4.0", False),
        ("CC0-1.0", "terms of use", True),
        ("CC-BY-4.0", "terms of use", False),
        ("CC-BY-SA-4.0 OR MIT", "CC-BY-4.0", True),
        ("CC-BY-SA-4.0 AND MIT", "CC-BY-SA-4.0", True),
        ("CC-BY-SA-4.0 AND CC-BY-NC-SA-4.0", "CC-BY-NC-SA-4.0", False),
        ("CC-BY-4.0", "CC-BY-SA-4.0 OR CC0-1.0", False),
        ("CC BY-SA 4.0", "CC-BY-SA-4.0", True),
    ]
    for original, edited, allowed in cases:
        with subtests.test(original=original, edited=edited, allowed=allowed):
            assert is_compatible(original, edited) == allowed


def test_only_licences_of_the_spdx_list_have_an_spdx_page(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str | None]] = [
        ("CC BY 4.0", "https://spdx.org/licenses/CC-BY-4.0"),
        ("CC0-1.0", "https://spdx.org/licenses/CC0-1.0"),
        ("MIT OR CC-BY-4.0", None),
        ("LicenseRef-mine", None),
        ("each image has its own", None),
    ]
    for stated, page in cases:
        with subtests.test(stated=stated, page=page):
            assert spdx_page(stated) == page


def test_licences_that_are_known_without_the_spdx_list_are_on_it() -> None:
    creative = product(("", "-NC"), ("", "-SA", "-ND"), ("1.0", "2.0", "2.5", "3.0", "4.0"))
    names = [f"CC-BY{nc}{element}-{version}" for nc, element, version in creative]
    others = Path(licences.__file__).with_suffix(".toml").read_text(encoding="utf-8")
    names += [one for group in tomllib.loads(others)["groups"] for one in group["licences"]]
    listed = get_spdx_licensing()
    unknown = [one for one in names if listed.validate(one).errors]
    assert unknown == ["LicenseRef-Public-Domain", "LicenseRef-US-Government-Work"]
