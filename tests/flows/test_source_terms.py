"""Terms of sources: warnings if they do not permit a release, and their correction."""

from pathlib import Path

import pytest

from loupe.db.entities import fetch
from loupe.db.release_rows import corrections_of
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import import_source, refusal_of_terms
from loupe.models.profiles.settings import load_settings
from loupe.release.format.files import CARD
from loupe.release.format.manifest import read_manifest
from loupe.schemas.build import SourceSpec
from loupe.schemas.records import Granularity, Source
from tests.flows.command_line import Finished, Loupe
from tests.flows.worlds import write_people, write_toml


def test_terms_are_refused_unless_known_to_permit_a_release_or_stated_to(tmp_path: Path) -> None:
    stated = tmp_path / "stated.toml"
    settings = load_settings(home=tmp_path, releases_file=stated)

    def refusal(licence: str, permitted_by: str | None = None) -> str:
        return refusal_of_terms(settings, "people", licence, permitted_by) or ""

    for licence in ("CC-BY-4.0", "CC0", "MIT OR CC-BY-ND-4.0"):
        assert refusal(licence) == ""
    for licence in ("research use only", "Unknown"):
        assert f"its terms are not a known licence ({licence!r})" in refusal(licence)
        assert refusal(licence, "agreed by letter") == ""
    for reason in (None, "agreed by letter"):
        forbidden = refusal("CC-BY-ND-4.0", reason)
        assert "forbids a release ('CC-BY-ND-4.0'), which no reason overrules" in forbidden
        assert "permitted_by" not in forbidden
    stated.write_text('[all]\npermitted_terms = { people = "agreed by letter" }\n')
    assert refusal("research use only") == ""
    assert refusal("CC-BY-ND-4.0") != ""


def test_an_import_states_why_terms_of_their_own_permit_a_release(
    loupe: Loupe, tmp_path: Path
) -> None:
    """Also of terms that look like a misspelt licence, which are refused otherwise."""
    path = write_people(tmp_path / "people", Granularity.MEDIUM, identities=1, images=1, captions=1)

    def imported(name: str, licence: str, *more: str) -> Finished:
        terms = ("--name", name, "--licence", licence, *more)
        return loupe("import", "cuhk-pedes", path, "--images", path.parent, *terms)

    refused = imported("one", "CC-BY 4")
    assert refused.exit_code == 2
    assert "did you mean 'CC-BY-4.0'? If these are terms of their own" in refused.err
    warned = imported("two", "for research")
    assert (warned.exit_code, "nothing of it is released" in warned.err) == (0, True)
    for name, licence in (("three", "CC-BY 4"), ("four", "for research")):
        done = imported(name, licence, "--permitted-by", "agreed by letter")
        assert (done.exit_code, "warning" in done.err) == (0, False)


class Builder:
    """Builds two identities of one tiny source with the given version and terms."""

    def __init__(self, loupe: Loupe, folder: Path) -> None:
        self._loupe = loupe
        self._file = folder / "build.toml"
        self._annotations = write_people(
            folder / "people", Granularity.MEDIUM, identities=3, images=1, captions=1
        )

    def __call__(self, version: str, licence: str, **terms: str) -> Finished:
        source = {
            "name": "people",
            "format": "cuhk-pedes",
            "annotations": self._annotations,
            "images": self._annotations.parent,
            "licence": licence,
            **terms,
        }
        source = {key: value for key, value in source.items() if value}
        build = {"dataset": "tiny", "version": version, "gate": "auto", "identities_per_source": 2}
        write_toml(self._file, {**build, "sources": [source]})
        return self._loupe("run", "build-ufine3c", "--config", self._file, "--in-process", "--json")


@pytest.fixture
def build(loupe: Loupe, tmp_path: Path) -> Builder:
    return Builder(loupe, tmp_path)


def messages_of(finished: Finished) -> str:
    assert finished.exit_code == 0, finished.err
    return " ".join(finished.err.split())


def test_a_changed_build_file_corrects_the_terms_of_later_releases_only(
    build: Builder, loupe: Loupe
) -> None:
    first = Path(build("0.1.0", "CC-BY-NC-4.0").json["release"])
    changed = {"citation": "The right authors, 2026", "correction": "the letter of May"}
    output = messages_of(build("0.2.0", "CC-BY-4.0", **changed))
    assert "terms of people corrected: licence 'CC-BY-NC-4.0' -> 'CC-BY-4.0', citation" in output
    assert "made under the earlier ones: tiny 0.1.0; release a new version" in output

    again = build("0.2.0", "CC-BY-4.0")
    assert "corrected" not in again.err
    assert sum(stage["done"] for stage in again.json["stages"]) == 0, "no image is imported again"
    release = Path(again.json["release"])
    for folder in (first, release):
        assert loupe("release", "verify", folder).exit_code == 0
    (old,), manifest = read_manifest(first).sources, read_manifest(release)
    (new,) = manifest.sources
    assert new.correction is not None
    assert (new.entity_id, new.correction.imported) == (old.entity_id, old.terms)
    assert (new.licence, new.citation) == ("CC-BY-4.0", "The right authors, 2026")
    assert manifest.terms.expression == "CC-BY-4.0"
    card = (release / CARD).read_text("utf-8")
    assert "(the letter of May); imported as: CC-BY-NC-4.0" in card

    messages_of(loupe("release", "rebuild", "tiny@0.1.0", "--out", first.parent / "again"))
    assert read_manifest(first.parent / "again").id == read_manifest(first).id

    built_before = build("0.1.0", "CC0-1.0").json
    assert built_before["release_id"] == read_manifest(first).id
    assert "under earlier terms of people" in built_before["warnings"][0]


def test_terms_that_are_corrected_back_leave_no_trace_in_a_release(
    build: Builder, tmp_path: Path
) -> None:
    first = build("0.1.0", "CC0-1.0").json
    build("0.2.0", "CC-BY-4.0")
    again = build("0.1.0", "CC0-1.0")
    assert again.json["release_id"] == first["release_id"]
    assert again.json["warnings"] == first["warnings"]
    (source,) = read_manifest(Path(build("0.3.0", "CC0-1.0").json["release"])).sources
    assert (source.licence, source.correction) == ("CC0-1.0", None)
    (source,) = read_manifest(Path(build("0.4.0", "CC-BY-4.0").json["release"])).sources
    assert source.correction is not None
    assert (source.licence, source.correction.number) == ("CC-BY-4.0", 3)


def test_terms_that_the_build_file_omits_do_not_change(build: Builder) -> None:
    build("0.1.0", "CC-BY-4.0", citation="The authors, 2026")
    again = build("0.2.0", "", correction="")
    assert again.exit_code == 0, again.err
    (source,) = read_manifest(Path(again.json["release"])).sources
    assert (source.licence, source.citation) == ("CC-BY-4.0", "The authors, 2026")


def test_forbidding_terms_name_the_existing_releases(build: Builder) -> None:
    build("0.1.0", "CC-BY-4.0")
    refused = build("0.2.0", "CC-BY-ND-4.0")
    assert refused.exit_code == 2
    output = " ".join(refused.err.split())
    assert "permit it: tiny 0.1.0 (loupe withdraw --source people)" in output
    assert "source people: its licence forbids a release" in output
    assert "corrected" not in build("0.2.0", "CC-BY-ND-4.0").err


def test_only_the_same_file_keeps_the_terms_that_its_build_omits(
    build: Builder, tmp_path: Path
) -> None:
    build("0.1.0", "CC-BY-4.0")
    assert build("0.1.1", "").exit_code == 0
    other = write_people(tmp_path / "x", Granularity.MEDIUM, identities=4, images=1, captions=1)
    (tmp_path / "people" / other.name).write_bytes(other.read_bytes())
    refused = build("0.2.0", "")
    assert refused.exit_code == 2
    output = " ".join(refused.err.split())
    assert "no model was called" in output
    assert "source people: its terms are not a known licence" in output


def test_a_patch_release_has_the_current_terms(build: Builder, loupe: Loupe) -> None:
    first = Path(build("0.1.0", "CC-BY-NC-4.0").json["release"])
    build("0.1.0", "CC-BY-4.0")
    row = ("images/1.png", "--release", first, "--ground", "privacy", "--reason", "asked", "--yes")
    messages_of(loupe("withdraw", *row))
    patch = first.parent / "tiny-0.1.1"
    assert loupe("release", "verify", patch).exit_code == 0
    assert read_manifest(patch).sources[0].licence == "CC-BY-4.0"
    build("0.1.1", "CC-BY-SA-4.0")
    rebuilt = first.parent / "again"
    messages_of(loupe("release", "rebuild", "tiny@0.1.1", "--out", rebuilt))
    assert read_manifest(rebuilt).id == read_manifest(patch).id


def test_credits_of_a_collection_go_when_another_licence_is_stated(
    home_run: RunContext, tmp_path: Path
) -> None:
    annotations = write_people(
        tmp_path / "a", Granularity.MEDIUM, identities=1, images=1, captions=1
    )
    spec = SourceSpec(
        name="cuhk", format="cuhk-pedes", annotations=annotations, images=annotations.parent
    )
    entity, _ = import_source(home_run, spec)
    assert "Person Search" in find_one(home_run, entity.id).citation
    import_source(home_run, spec.model_copy(update={"licence": "CC0-1.0"}))
    terms = corrections_of(home_run.store, [entity.id])[entity.id][1].terms
    assert (terms.licence, terms.citation, terms.homepage) == ("CC0-1.0", "", None)


def find_one(run: RunContext, entity_id: str) -> Source:
    return fetch(run.store, [entity_id])[entity_id].record(Source)
