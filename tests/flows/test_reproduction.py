"""`loupe reproduce`: recipes for every published row, and runs on small releases."""

import json
from pathlib import Path

import pytest

from loupe.db.store import Store
from loupe.flows.evaluation.reproduction import Reproduction, plan_table
from loupe.flows.evaluation.training import RECORD
from loupe.release.build import build_release
from loupe.retrieval.published import named_datasets
from loupe.retrieval.reproduction import experiments_of, table_names
from tests.flows.command_line import Finished, Loupe
from tests.flows.test_evaluation_contrasts import built as build_contrasts
from tests.flows.test_training_images import released as build_people
from tests.flows.tiny_training import CONFIG
from tests.release.recos_world import RECOS, benchmark
from tests.release.worlds import store_world
from tests.retrieval.cfam.network.small_training import TINY_CLIP

STILLS = '{ provider = "builtin-stills" }'


def test_every_published_row_has_a_recipe(home: Path, home_store: Store) -> None:
    assert len(table_names()) == 14
    for table in table_names():
        plan = plan_table(home_store, home, table, (), Reproduction())
        for row in plan.rows:
            recipe = row.experiment.recipe
            assert {row.experiment.dataset, row.experiment.trained_on} <= {"", *named_datasets()}
            assert row.is_available != bool(recipe.unavailable), row
        if table in ("ufinebench/8", "ufinebench/9"):
            settings = {row.training.model_dump_json() for row in plan.rows if row.training}
            assert len(settings) == len(plan.rows), "ablations differ in their settings"


def test_only_the_baseline_of_the_ablation_has_info_nce(home: Path, home_store: Store) -> None:
    """UFineBench, table 8, also with a training file that switches InfoNCE on."""
    plan = plan_table(home_store, home, "ufinebench/8", (), Reproduction(training="demo"))
    assert [row.training and row.training.losses.info_nce for row in plan.rows] == [1, 0, 0, 0, 0]


def test_rows_are_selected_by_whole_words() -> None:
    (row,) = experiments_of("ufinebench/9", ("no. 1",))
    assert row.recipe.training == {"decoder": {"shared": False, "blocks": 2, "queries": 16}}
    assert len(experiments_of("ufinebench/2", ("CFAM", "plip"))) == 8


def test_missing_data_is_reported_with_its_address(loupe: Loupe) -> None:
    done = loupe("reproduce", "ccd/2", "--row", "AltCLIP", "--check")
    assert done.exit_code == 1
    assert "https://github.com/miaomiao1215/CCD" in done.out
    assert "– / 43.5" in done.out
    assert "scores of people" in loupe("reproduce", "--list").out
    listed = loupe("reproduce", "--list", "--json").json
    assert next(one for one in listed if one["table"] == "ufinebench/9")["available"] == 19
    assert "ufinebench/5 is not reproduced: their numbers" in loupe("reproduce", "ufinebench/5").err
    assert loupe("reproduce", "ufinebench/10").exit_code == 2
    assert loupe("reproduce", "ccd/2", "--row", "GPT").exit_code == 2
    assert loupe("reproduce").exit_code == 2


def test_a_misspelt_row_or_dataset_is_refused(loupe: Loupe, tmp_path: Path) -> None:
    config = tmp_path / "own.toml"
    for text, hint in (
        (f'[[models]]\nrows = ["IRRAA"]\nembedder = {STILLS}', "did you mean IRRA?"),
        ('releases = { MSCOCO-CC = "release" }', "did you mean MSCOCO-CCD?"),
    ):
        config.write_text(text, encoding="utf-8")
        done = loupe("reproduce", "ccd/2", "--config", config)
        assert done.exit_code == 2
        assert hint in done.err


def test_ufinebench_rows_are_trained_once_and_scored(
    loupe: Loupe, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "clip.json").write_text(json.dumps(TINY_CLIP), encoding="utf-8")
    (tmp_path / "tiny.toml").write_text(CONFIG, encoding="utf-8")
    build_people(tmp_path, "train", "test")
    config = tmp_path / "own.toml"
    config.write_text('training = "tiny.toml"\nreleases = { CUHK-PEDES = "release" }\n')
    chosen = ("ufinebench/9", "--row", "no. 0", "--row", "no. 7", "--config", config)
    first = loupe("reproduce", *chosen, "--json")
    assert first.exit_code == 0, first.err
    rows = first.json["rows"]
    assert [row["state"] for row in rows] == ["done", "done"]
    recall = rows[0]["scores"][0]["metrics"]["R@1"]
    assert recall["published"] == 71.17
    assert recall["difference"] == pytest.approx(recall["ours"] - 71.17, abs=0.01)
    assert recall["low"] <= recall["ours"] <= recall["high"]
    assert recall["distinguishable"] == (not recall["low"] <= 71.17 <= recall["high"])
    compared = first.json["comparisons"]
    assert {one["metric"] for one in compared} == {"R@1"}
    assert {one["name"] for one in compared} | {one["best"] for one in compared} == {
        row["label"] for row in rows
    }
    assert len(list((home / "trainings").glob(f"reproduce-*/{RECORD}"))) == 2
    again = loupe("reproduce", *chosen, "--json")
    assert again.json["rows"] == rows
    assert again.json["gpu_hours_left"] == 0
    assert "R@1" not in again.err, "no model is trained again"
    shared = loupe("reproduce", "ufinebench/9", "--row", "no. 8", "--config", config, "--check")
    assert "left to do: 0.0 GPU hours" in shared.out


def reproduced(loupe: Loupe, folder: Path, table: str, row: str, dataset: str) -> Finished:
    config = folder / "own.toml"
    config.write_text(
        f'releases = {{ "{dataset}" = "release" }}\n'
        f'[[models]]\nrows = ["{row}"]\nembedder = {STILLS}\n',
        encoding="utf-8",
    )
    return loupe("reproduce", table, "--row", f"{row}, on {dataset}", "--config", config)


def test_recos_and_ccd_are_scored_in_both_directions(loupe: Loupe, tmp_path: Path) -> None:
    world = store_world(tmp_path / "recos" / "world", benchmark().world.contents())
    build_release(
        world.store, world.blobs, RECOS, "1.1.0", tmp_path / "recos" / "release", tier="v1"
    )
    world.store.close()
    build_contrasts(tmp_path / "ccd", groups=4, size=2)
    unime, by_type = "UniME (Phi3.5-V-4.2B)", "Entity Attribute"
    for folder, table, row, dataset, metric in (
        ("recos", "recos/2", "ALBEF", "ReCoS v1", "R@1"),
        ("ccd", "ccd/2", unime, "MSCOCO-CCD", "R@1"),
        ("ccd", "ccd/6", unime, "MSCOCO-CCD", by_type),
        ("ccd", "ccd/9", unime, "Flickr30k-CCD", by_type),
    ):
        done = reproduced(loupe, tmp_path / folder, table, row, dataset)
        assert done.exit_code == 0, done.err
        for published in experiments_of(table, (f"{row}, on {dataset}",))[0].published:
            assert f" / {published.scores[metric]:.1f} (" in done.out, done.out
        assert f"{row}: scored with loupe-coded-stills-lexicon@2 instead" in done.out
