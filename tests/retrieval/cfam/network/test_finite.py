from pathlib import Path

import pytest

from loupe.retrieval.cfam.network.training import Measured, require_finite
from loupe.schemas.errors import TrainingError

IMAGES = ([Path("a/1.jpg"), Path("a/2.jpg")], [Path(f"b/{number}.jpg") for number in range(10)])


def measured(first: float, second: float, norm: float | None) -> Measured:
    return Measured(12, 3, [{"matching": first}, {"matching": second}], norm, IMAGES)


def test_finite_losses_pass(tmp_path: Path) -> None:
    for norm in (None, 0.0, 7.0):
        require_finite(measured(0.1, 2.0, norm), tmp_path)
    with pytest.raises(TrainingError):  # in one process
        require_finite(measured(0.1, float("nan"), None), tmp_path)


def test_the_error_names_the_loss_the_step_and_the_images(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        require_finite(measured(float("nan"), 2.0, 1.0), tmp_path)
    assert str(caught.value) == (
        f"the loss 'matching' is nan in step 12 (epoch 3), over the images 1.jpg, 2.jpg; "
        f"the checkpoint {tmp_path} is unchanged"
    )


def test_the_error_names_at_most_eight_images_per_process(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"0.jpg, .* 7.jpg and 2 more; there is no checkpoint"):
        require_finite(measured(1.0, float("inf"), 1.0), tmp_path / "none")


def test_a_gradient_norm_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the norm of the gradients is inf in step 12"):
        require_finite(measured(1.0, 1.0, float("inf")), tmp_path)
