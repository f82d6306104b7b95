"""The conditions of licences, and the adapter's license chart of Creative Commons."""

import itertools

import pytest

from loupe.schemas.licences import CONDITIONS, Conditions, conditions_of, may_become

ADAPTERS = ("CC-BY-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-SA-4.0", "CC0-1.0")
CHART = {
    "CC0-1.0": "CC-BY-4.0 CC-BY-NC-4.0 CC-BY-NC-SA-4.0 CC-BY-SA-4.0 CC0-1.0",
    "CC-PDM-1.0": "CC-BY-4.0 CC-BY-NC-4.0 CC-BY-NC-SA-4.0 CC-BY-SA-4.0 CC0-1.0",
    "CC-BY-4.0": "CC-BY-4.0 CC-BY-NC-4.0 CC-BY-NC-SA-4.0 CC-BY-SA-4.0",
    "CC-BY-NC-4.0": "CC-BY-NC-4.0 CC-BY-NC-SA-4.0",
    "CC-BY-NC-SA-4.0": "CC-BY-NC-SA-4.0",
    "CC-BY-SA-4.0": "CC-BY-SA-4.0",
    "CC-BY-ND-4.0": "",
    "CC-BY-NC-ND-4.0": "",
}
"""From each licence of the left column to those not grey; ND licences of adapters are omitted."""


def test_may_become_agrees_with_the_chart(subtests: pytest.Subtests) -> None:
    for original, adapted in itertools.product(CHART, ADAPTERS):
        with subtests.test(original=original, adapted=adapted):
            assert may_become(original, adapted) == (adapted in CHART[original].split())


def test_may_become_for_other_versions_and_licences(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, bool]] = [
        ("CC-BY-SA-2.0", "CC-BY-SA-4.0", True),
        ("CC-BY-SA-2.0-DE", "CC-BY-SA-3.0", True),
        ("CC-BY-SA-4.0", "CC-BY-SA-3.0", False),
        ("CC-BY-SA-1.0", "CC-BY-SA-4.0", False),  # 1.0 has no clause for later versions
        ("CC-BY-SA", "CC-BY-SA-4.0", False),  # its version is not stated
        ("CC-BY-SA-4.0", "LAL-1.3", True),
        ("CC-BY-SA-3.0", "LAL-1.3", False),
        ("LAL-1.3", "CC-BY-SA-4.0", False),
        ("CC-BY-SA-4.0", "GPL-3.0-only", True),
        ("ODbL-1.0", "ODbL-1.0", True),
        ("ODbL-1.0", "CC-BY-SA-4.0", False),
        ("MIT", "CC-BY-4.0", True),
        ("MIT", "CC0-1.0", False),
        ("nobody knows", "nobody knows", False),
        ("CC-BY-4.0", "nobody knows", False),
    ]
    for original, adapted, allowed in cases:
        with subtests.test(original=original, adapted=adapted, allowed=allowed):
            assert may_become(original, adapted) == allowed


def test_conditions_of_licences(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, Conditions | None]] = [
        ("CC0-1.0", Conditions()),
        ("CC-BY-3.0-IGO", Conditions(("attribution",))),
        ("CC-BY-NC", Conditions(("attribution", "non_commercial"))),
        ("CC-BY-NC-SA-2.5", Conditions(CONDITIONS)),
        ("ODbL-1.0", Conditions(("attribution", "share_alike"))),
        ("CC-BY-ND-4.0", None),
        ("CC-BY-NC-ND-2.0-JP", None),
        ("AGPL-3.0-only", None),
        ("research only", None),
    ]
    for licence, asked in cases:
        with subtests.test(licence=licence, asked=asked):
            assert conditions_of(licence) == asked


def test_an_allowed_change_of_licence_drops_no_condition(subtests: pytest.Subtests) -> None:
    for original, adapted in itertools.product(ADAPTERS, ADAPTERS):
        with subtests.test(original=original, adapted=adapted):
            if may_become(original, adapted):
                asked, given = conditions_of(original), conditions_of(adapted)
                assert asked is not None
                assert given is not None
                assert asked <= given
