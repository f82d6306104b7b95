"""`prefect deployment run train-cfam/default`, on a real Prefect server and worker."""

from pathlib import Path

import pytest

from schemas.cfam import TrainingRecord
from tests.flows.prefect_runs import Prefect
from tests.flows.tiny_training import write_tiny_training

pytestmark = [pytest.mark.prefect, pytest.mark.label_studio, pytest.mark.slow]


@pytest.mark.timeout(1500)
def test_a_network_is_trained_by_its_deployment(installation: Prefect, tmp_path: Path) -> None:
    request = write_tiny_training(tmp_path)
    given = {"release": request.release, "config": request.config, "out": request.out}
    first = installation.run("train-cfam/default", **given)
    assert first.state == "COMPLETED", first.message
    home = tmp_path / "out"
    record = TrainingRecord.model_validate_json((home / "training.json").read_bytes())
    assert (record.steps, record.training_identities, record.settings.name) == (12, 9, "tiny")
    assert first.message.startswith("trained 12 steps on people.json; the best checkpoint")
    assert f"is {home / 'best'}" in first.message
    assert f"| R@1 | {record.best.metrics['R@1']:.2f} |" in installation.artifacts()["out-training"]
