"""People from single photographs, captioned from templates: the recipe of WebPerson (2025)."""

import loupe
from loupe import Crop, Image


@loupe.step(version="1")
def people(
    image: Image,
    detector: loupe.Detector,
    pose: loupe.PoseModel,
    score: float = 0.7,
    width_px: float = 16,
    keypoints: int = 8,
) -> list[Crop]:
    """Crops of whole people: confidence, size, aspect, visible keypoints."""
    found = []
    for box in detector.detect(image):
        is_shaped = box.width >= width_px and 1.5 <= box.height / box.width <= 4
        if box.score < score or not is_shaped:
            continue
        if pose.body(image, box).keypoints >= keypoints:
            found.append(Crop.of(image, box))
    return found


pipeline = loupe.Pipeline(
    "web-persons",
    version="0.1.0",
    tags=["person retrieval"],
    sources=[loupe.source("image-list", "list.txt", images="photos", licence="CC0-1.0")],
    steps=[
        people,
        loupe.steps.near_duplicates(),
        loupe.llm_step("template.md", per_item=2),
        loupe.steps.check("form"),
        loupe.gate("captions", page="text", policy="auto"),
        loupe.release(test_share=0.5),
    ],
)
