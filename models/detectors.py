"""Builds and pins the detector of people that a profile names."""

from typing import Any, assert_never

from models.tracking.detector import PersonDetector
from schemas.tracking import BuiltinDetector, DetectorSpec, FairMOTDetector, SSDLiteDetector


def build_detector(spec: DetectorSpec) -> PersonDetector:
    """The detector that `spec` describes, loaded; only its own libraries are imported.

    A detector may keep state between frames, so it processes one video at a time.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinDetector():
            from models.builtin.pedestrians.detector import BuiltinPedestrianDetector

            return BuiltinPedestrianDetector(spec)
        case SSDLiteDetector():
            from models.ssdlite import SSDLitePersonDetector

            return SSDLitePersonDetector(spec)
        case FairMOTDetector():
            from models.fairmot.detector import FairMOTPersonDetector

            return FairMOTPersonDetector(spec)
        case _:
            assert_never(spec)


def pinned(spec: DetectorSpec) -> DetectorSpec:
    """The same specification with its checkpoint's digest, so that no other one is loaded.

    Raises:
        ModelError: the checkpoint cannot be read.
    """
    if not isinstance(spec, FairMOTDetector) or spec.checkpoint_sha256 is not None:
        return spec
    from models.fairmot.detector import checkpoint_digest

    return spec.model_copy(update={"checkpoint_sha256": checkpoint_digest(spec.checkpoint)})


def deciding_values(spec: DetectorSpec) -> dict[str, Any]:
    """The values of `spec` that affect what is found, without paths and device."""
    return spec.model_dump(mode="json", exclude={"checkpoint", "device"})


def runs_on_gpu(spec: DetectorSpec) -> bool:
    """Whether detectors of `spec` share a GPU, so that running several at once gains nothing.

    Raises:
        ModelError: there is no such device.
    """
    if not isinstance(spec, FairMOTDetector):
        return False
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return False  # the caller reports it
    from models.torch_batches import torch_device

    return torch_device(spec.device).type == "cuda"
