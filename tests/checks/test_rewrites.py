"""Checks are found by name; what one reads of a subject, datasets that do not ask for it lack."""

import pytest

from loupe.checks.rewrites import Doubt, described_checks, facts_reader, judge_rewrite, load_check
from loupe.checks.text import Defect
from loupe.schemas.build import PEOPLE_CHECKS, UFine3CBuild
from loupe.schemas.errors import ConfigurationError, UsageError
from loupe.schemas.faithfulness import FaithfulnessReport, RewritePair
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.validation import validated

SETTINGS = FaithfulnessSettings()
COAT = RewritePair(
    source="A woman in a long red coat walks along the street and carries a small bag.",
    rewrite="Along the street walks a woman in a long blue coat, and she carries a small bag.",
)


def test_only_the_check_of_persons_compares_what_is_said_of_them() -> None:
    with_person = judge_rewrite(COAT, SETTINGS, PEOPLE_CHECKS)
    without = judge_rewrite(COAT, SETTINGS, ("form", "support"))
    assert isinstance(with_person, FaithfulnessReport)
    assert isinstance(without, FaithfulnessReport)
    assert "contradicted" in [one.change for one in with_person.findings]
    assert without.findings == ()
    assert facts_reader("person") is not None
    assert facts_reader("support") is None


def test_a_check_keeps_the_doubts_of_earlier_ones_that_it_cannot_explain() -> None:
    added = COAT.model_copy(update={"rewrite": f"{COAT.rewrite} Quarterly earnings rose sharply."})
    found = {}
    for checks in (PEOPLE_CHECKS, ("form", "support")):
        report = judge_rewrite(added, SETTINGS, checks)
        assert isinstance(report, FaithfulnessReport)
        found[checks] = [one.message for one in report.findings if one.change == "unsupported"]
    assert len(found[PEOPLE_CHECKS]) == 1
    assert found[PEOPLE_CHECKS] == found["form", "support"]


def test_a_copy_of_any_earlier_rewrite_is_refused() -> None:
    pair = COAT.model_copy(update={"siblings": ("Another text.", COAT.rewrite.upper())})
    copied = judge_rewrite(pair, SETTINGS, ("form",))
    assert isinstance(copied, Defect)
    assert copied.reason == "near_identical_to_sibling"


def test_minor_findings_count_if_the_profile_is_strict() -> None:
    tall = RewritePair(source="A tall man in a red coat.", rewrite="A man of average height, red.")
    for strict, verdict in ((False, "faithful"), (True, "suspect")):
        settings = FaithfulnessSettings(strict=strict, min_length_share=0)
        report = judge_rewrite(tall, settings, PEOPLE_CHECKS)
        assert isinstance(report, FaithfulnessReport)
        assert report.verdict == verdict


def test_words_that_the_check_of_persons_knows_explain_a_part_but_no_label() -> None:
    source = COAT.source
    known = "Wearing a long red coat and with a small bag, a woman walks along the street, upright."
    label = "Wearing – a woman in a long red coat walks along the street and carries a small bag."
    for rewrite, changes in ((known, set()), (label, {"unsupported"})):
        pair = RewritePair(source=source, rewrite=rewrite)
        report = judge_rewrite(pair, SETTINGS, PEOPLE_CHECKS)
        assert isinstance(report, FaithfulnessReport)
        found = {one.change for one in report.findings if not one.minor}
        assert found & {"unsupported"} == changes


def test_an_unknown_check_is_named_with_the_nearest_one() -> None:
    said = "no installed package adds .*'persn'.*; did you mean person?"
    with pytest.raises(UsageError, match=said):
        load_check("persn")
    source = {"name": "people", "format": "cuhk-pedes", "annotations": "a.json", "images": "."}
    values = {"sources": [source], "gate": "auto", "checks": ["form", "persn"]}
    with pytest.raises(ConfigurationError, match=said):
        validated(UFine3CBuild, values, "build.toml")
    assert described_checks(PEOPLE_CHECKS) == list(PEOPLE_CHECKS)


def test_texts_in_other_languages_are_not_read_as_english() -> None:
    german = FaithfulnessSettings(language="de")
    assert load_check("person")(COAT, german, (doubt := [Doubt(FINDING)])) is doubt


FINDING = judge_rewrite(COAT, SETTINGS, PEOPLE_CHECKS).findings[0]  # type: ignore[union-attr]
