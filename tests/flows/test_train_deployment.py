"""`prefect deployment run train-cfam/default`, on a real Prefect server and worker."""

import json
from pathlib import Path

import pytest

from schemas.cfam import TrainingRecord
from tests.flows.prefect_runs import Prefect
from tests.flows.tiny_training import write_tiny_training

pytestmark = [pytest.mark.prefect, pytest.mark.slow]


@pytest.mark.timeout(1500)
def test_a_network_is_trained_by_its_deployment(prefect: Prefect, tmp_path: Path) -> None:
    request = write_tiny_training(tmp_path)
    given = {"release": request.release, "config": request.config, "out": request.out}
    first = prefect.run("train-cfam/default", **given)
    assert first["type"] == "COMPLETED", first["message"]
    home = tmp_path / "out"
    record = TrainingRecord.model_validate_json((home / "training.json").read_bytes())
    assert (record.steps, record.training_identities, record.settings.name) == (12, 9, "tiny")
    assert first["message"].startswith("trained 12 steps on people.json; the best checkpoint")
    assert first["message"].endswith(f"is {home / 'best'}")
    assert f"| R@1 | {record.best.metrics['R@1']:.2f} |" in prefect.artifacts()["out-training"]

    again = prefect.run("train-cfam/default", **given)
    assert again["type"] == "FAILED"
    assert again["message"] == (
        f"{home} already holds a training; resume it with --resume, or choose another --out"
    )


def test_a_fault_of_the_user_is_one_sentence(prefect: Prefect, tmp_path: Path) -> None:
    people = tmp_path / "people.json"
    people.write_text(json.dumps([]), encoding="utf-8")
    state = prefect.run("train-cfam/default", release=people)
    assert state["type"] == "FAILED"
    assert state["message"] == f"{people} has no rows of the train split; wanted some to train on"
