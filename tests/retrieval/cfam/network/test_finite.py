from pathlib import Path

import pytest

from retrieval.cfam.network.training import Measured, require_finite
from schemas.errors import TrainingError

IMAGES = ([Path("a/1.jpg"), Path("a/2.jpg")], [Path(f"b/{number}.jpg") for number in range(10)])


def measured(first: float, second: float, norm: float | None) -> Measured:
    return Measured(12, 3, [{"matching": first}, {"matching": second}], norm, IMAGES)


@pytest.mark.parametrize("norm", [None, 0.0, 7.0])
def test_finite_losses_pass(norm: float | None, tmp_path: Path) -> None:
    fine = measured(0.1, 2.0, norm)
    require_finite(fine, tmp_path)
    with pytest.raises(TrainingError):  # the same, but for one loss
        require_finite(
            fine._replace(losses=[{"matching": 0.1}, {"matching": float("nan")}]), tmp_path
        )


def test_the_loss_the_step_and_the_images_are_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        require_finite(measured(float("nan"), 2.0, 1.0), tmp_path)
    assert str(caught.value) == (
        f"the loss 'matching' is nan in step 12 (epoch 3), over the images 1.jpg, 2.jpg; "
        f"the checkpoint {tmp_path} is unchanged"
    )


def test_of_many_images_some_are_named(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"0.jpg, .* 7.jpg and 2 more; there is no checkpoint"):
        require_finite(measured(1.0, float("inf"), 1.0), tmp_path / "none")


def test_gradients_count_too(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the norm of the gradients is inf in step 12"):
        require_finite(measured(1.0, 1.0, float("inf")), tmp_path)
