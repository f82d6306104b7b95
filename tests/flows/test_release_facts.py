"""`releases.toml`: statements of curators on all datasets and on single ones."""

from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from loupe.flows.engine.release_facts import release_facts, unknown_names
from loupe.schemas.errors import ConfigurationError, UsageError
from tests.release.worlds import small_world, store_world

STATED = """
[all]
creators = [{ family_names = "Lovelace", given_names = "Ada" }, { name = "Example Laboratory" }]
contact = "mailto:data@example.org"
accepted_shortcuts = ["source of a caption"]
permitted_terms = { CUHK-PEDES = "agreement of 2024", ICFG-PEDES = "paragraph 3" }

[datasets.ufine3c]
title = "Streets"
licence = "cc by 4.0"
date_released = 2026-11-01
permitted_terms = { CUHK-PEDES = "agreement of 2026" }
images = "stored"
accepted_shortcuts = ["original captions"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "releases.toml"
    path.write_text(STATED, "utf-8")
    return path


def test_statements_on_all_datasets_and_on_one_are_merged(file: Path) -> None:
    about, permitted, images, accepted = release_facts(file, "ufine3c")
    assert about is not None
    assert (about.title, about.licence, about.contact) == (
        "Streets",
        "CC-BY-4.0",
        "mailto:data@example.org",
    )
    assert [one.full_name for one in about.creators] == ["Ada Lovelace", "Example Laboratory"]
    assert permitted == {"CUHK-PEDES": "agreement of 2026", "ICFG-PEDES": "paragraph 3"}
    assert (images, accepted) == ("stored", ("source of a caption", "original captions"))


def test_options_override_the_file(file: Path) -> None:
    given = {"date_released": "2026-11-22", "permitted_by": ("CUHK-PEDES=a letter = yes",)}
    about, permitted, *_ = release_facts(file, "ufine3c", **given)  # type: ignore[arg-type]
    assert about is not None
    assert about.date_released == date(2026, 11, 22)
    assert permitted["CUHK-PEDES"] == "a letter = yes"


def test_without_a_file_nothing_is_stated(tmp_path: Path) -> None:
    assert release_facts(tmp_path / "none.toml", "ufine3c") == (None, {}, None, ())


def test_errors_in_the_file_are_named(tmp_path: Path) -> None:
    cases = [
        ("[all", "is not valid TOML"),
        ("[all]\ntitel = 'x'", "unknown key 'all.titel'; did you mean 'title'?"),
        ("[dataset.x]\ntitle = 'x'", "unknown key 'dataset'; did you mean 'datasets'?"),
        (
            "[datasets.x]\nlicense = 'MIT'",
            "unknown key 'datasets.x.license'; did you mean 'licence'?",
        ),
        (
            "[all]\ncreators = [{ nmae = 'a' }]",
            "unknown key 'all.creators.0.nmae'; did you mean 'name'?",
        ),
        (
            "[all]\nzzz = 1",
            "unknown key 'all.zzz'; known keys are accepted_shortcuts, contact, creators",
        ),
        ("[all]\nlicence = 'research only'", "all.licence: must be an SPDX licence"),
        ("[all]\nlicence = 'CC BY-ND 4.0'", "such as CC-BY-4.0; got 'CC BY-ND 4.0'"),
        ("[all]\ncreators = 'me'", "all.creators: must be a list, got 'me'"),
        ("all = 3", "all: must be a table of keys and values, got 3"),
        ("[all]\ntitle = 3", "all.title: must be a text, got 3"),
        ("[all]\ndoi = 'https://doi.org/10.1/x'", "all.doi: must be a DOI, such as 10.5281/"),
        ("[all]\ncreators = [{ given_names = 'Ada' }]", "a person must have family_names; got"),
        ("[datasets.x]\ncreators = [{ name = 'a', given_names = 'b' }]", "either family_names"),
        (
            "[all]\naccepted_shortcuts = ['original caption']",
            "blind opponents, or QUESTION by OPPONENT; did you mean original captions?",
        ),
        ("[all]\nhomepage = 'javascript:alert(1)'", "all.homepage: must be a web address"),
    ]
    for text, says in cases:
        path = tmp_path / "releases.toml"
        path.write_text(text, "utf-8")
        with pytest.raises(ConfigurationError) as refused:
            release_facts(path, "ufine3c")
        assert says in str(refused.value), text
        assert str(refused.value).count("got ") <= 1, text


def test_unknown_names_are_reported_with_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "releases.toml"
    stated = "[datasets.ufine3d]\ntitle = 'x'\n[datasets.ufine3c]\ntitle = 'y'\n"
    path.write_text(f"{stated}permitted_terms = {{ CUHK-PEDS = 'z', UFine6926 = 'z' }}\n", "utf-8")
    world = store_world(tmp_path / "world", small_world(1).contents())
    with closing(world.store):
        sentences = list(unknown_names(path, release_facts(path, "ufine3c"), world.store))
    of_dataset, of_source = sentences
    assert of_dataset.endswith("'ufine3d', which is not a dataset; did you mean ufine3c?")
    assert of_source.endswith("which is not a source; did you mean CUHK-PEDES?")


def test_permitted_by_needs_a_source_and_a_reason(tmp_path: Path) -> None:
    for given in ("CUHK-PEDES", "=reason", "CUHK-PEDES= "):
        with pytest.raises(UsageError, match="SOURCE=REASON"):
            release_facts(tmp_path / "none.toml", "x", permitted_by=(given,))


def test_an_invalid_date_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a date must have the form"):
        release_facts(tmp_path / "none.toml", "x", date_released="tomorrow")
