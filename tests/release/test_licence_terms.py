"""Licence terms: which images may be released, and the conditions of the whole release."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loupe.release.build import build_release
from loupe.release.card.terms import LicensedItem, attribution_text, terms_of
from loupe.release.contamination import Checks
from loupe.release.verify import verify_release
from loupe.schemas.errors import IntegrityError
from loupe.schemas.licences import one_of
from loupe.schemas.records import Attribution
from loupe.schemas.release import Credit, Manifest
from tests.release import ccd_world
from tests.release.test_street import reseal_listed
from tests.release.test_verify import edit_parquet
from tests.release.worlds import DATASET, Composer, source, store_world

WORDS = "Research use only, from the authors on request"
REASON = "agreement of 2024-05-01 with the authors"


def build_with_licence(
    home: Path, licence: str, permitted: Mapping[str, str] | None = None
) -> Path:
    """Build a release of one image from a source with this licence."""
    world = Composer()
    of = source("CUHK-PEDES", None, licence=licence)
    world.caption(world.image(of, "1", "a.jpg"), of, "A tall person.")
    stored = store_world(home / "world", world.contents())
    try:
        checks = Checks(permitted_terms=permitted or {})
        build_release(stored.store, stored.blobs, DATASET, "1.0.0", home / "out", checks=checks)
    finally:
        stored.store.close()
    return home / "out"


def test_source_terms_without_permission_stop_the_build(tmp_path: Path) -> None:
    for licence in (WORDS, "unknown", "all rights reserved"):
        home = tmp_path / licence
        with pytest.raises(IntegrityError, match=r"permitted_terms in releases\.toml") as refused:
            build_with_licence(home, licence)
        assert f"1 of CUHK-PEDES ({licence!r})" in str(refused.value)
        assert not (home / "out").exists()


def test_a_stated_reason_permits_custom_terms_and_is_released(
    tmp_path: Path,
) -> None:
    folder = build_with_licence(tmp_path, WORDS, {"CUHK-PEDES": REASON, "another": "not needed"})
    assert verify_release(folder).problems == []
    assert REASON in (folder / "README.md").read_text("utf-8")
    assert REASON in (folder / "manifest.json").read_text("utf-8")
    assert "not needed" not in (folder / "manifest.json").read_text("utf-8")

    def without(manifest: Manifest) -> Manifest:
        assert manifest.terms is not None
        terms = manifest.terms.model_copy(update={"permissions": ()})
        return manifest.model_copy(update={"terms": terms})

    reseal_listed(folder, without)
    (problem,) = verify_release(folder).problems
    assert problem.fault == "licence_forbids"
    assert "1 images are under the terms of their source, 'CUHK-PEDES'" in problem.message


def test_a_reason_cannot_overrule_a_known_licence(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"CC BY-ND 4\.0") as refused:
        build_with_licence(tmp_path, "CC BY-ND 4.0", {"CUHK-PEDES": REASON})
    assert "no reason overrules that" in str(refused.value)
    assert "permitted" not in str(refused.value)


def contrast_release(home: Path, anchor: dict[str, Any], made: dict[str, Any]) -> Path:
    """Build a release of an anchor and an edited image."""
    world = Composer(ccd_world.CCD)
    image = world.image(ccd_world.COCO, "1", "1.jpg", **anchor)
    ccd_world.refine(world, image, ccd_world.COCO, "an anchor")
    edited = ccd_world.contrast(world, image, 1, 0, method="edit", **made)
    ccd_world.refine(world, edited, ccd_world.COCO, "an edited one")
    stored = store_world(home / "world", world.contents())
    try:
        build_release(stored.store, stored.blobs, ccd_world.CCD, "1.0.0", home / "out")
    finally:
        stored.store.close()
    return home / "out"


def licensed_under(licence: str) -> dict[str, Any]:
    return {"attribution": Attribution(licence=licence, creator="Ada", source_url="https://a.org")}


def test_an_edited_image_keeps_the_share_alike_of_its_anchor(tmp_path: Path) -> None:
    alike, other = licensed_under("CC-BY-SA-4.0"), licensed_under("CC-BY-NC-SA-4.0")
    with pytest.raises(IntegrityError, match="1 edited images") as refused:
        contrast_release(tmp_path / "a", alike, other)
    assert "images/2.jpg is under 'CC-BY-NC-SA-4.0', and was edited out of images/1.jpg" in str(
        refused.value
    )
    folder = contrast_release(tmp_path / "b", alike, alike)
    assert verify_release(folder).problems == []
    edit_parquet(folder, lambda rows: rows[1].update(licence="CC-BY-4.0"))
    reseal_listed(folder)
    faults = {problem.fault: problem.message for problem in verify_release(folder).problems}
    assert "row 2 is under 'CC-BY-4.0', and was edited" in faults["licence_incompatible"]
    assert "terms_differ" in faults


def test_conditions_of_all_licences_are_combined() -> None:
    items = [
        LicensedItem("CC-BY-SA-4.0", "a", True, 2),
        LicensedItem("CC-BY-NC-SA-4.0", "b", False, 3),
        LicensedItem("MIT OR CC-BY-4.0", "c", False, 1),
        LicensedItem(WORDS, "CUHK PEDES", False, 4),
    ]
    terms = terms_of(items, {"CUHK PEDES": REASON})
    assert terms.conditions == ("attribution", "share_alike", "non_commercial")
    assert terms.expression == (
        "CC-BY-NC-SA-4.0 AND CC-BY-SA-4.0 AND (MIT OR CC-BY-4.0) AND LicenseRef-CUHK-PEDES-terms"
    )
    assert terms.apart == (("CC-BY-NC-SA-4.0", "CC-BY-SA-4.0"),)
    assert [(one.images, one.own) for one in terms.licences] == [(3, 0), (2, 2), (1, 0), (4, 0)]
    assert not terms.is_read


def page(*licences: str) -> str:
    credits_ = [
        Credit(licence, number, f"{number}.jpg", "A", "https://a.org/p", "service", own=True)
        for number, licence in enumerate(licences)
    ]
    return b"".join(attribution_text("contrasts 0.1.0", credits_)).decode()


def test_licences_known_from_a_search_filter_are_marked() -> None:
    for names in (["CC-BY"], ["CC0-1.0", "CC-BY"]):
        stated, filtered = page("CC-BY-4.0", one_of(names)).split("\n## ")[1:]
        assert "does not state the licence of single images" in filtered, names
        assert "only images under one of these licences" in filtered, names
        assert "search service" not in stated, names
        assert "0.jpg" in stated, names
        assert "1.jpg" in filtered, names
