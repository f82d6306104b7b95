"""Input of a quick `loupe train`: drawn people and a tiny CLIP."""

import json
from pathlib import Path

from loupe.flows.evaluation.training import TrainingRequest
from tests.retrieval.cfam.network.small_training import TINY_CLIP, draw_people

CONFIG = """
name = "tiny"
device = "cpu"
workers = 0
validation_share = 0.25
[backbone]
architecture_file = "clip.json"
weights = ""
image_height_px = 16
image_width_px = 8
text_tokens = 12
[decoder]
queries = 2
blocks = 1
width = 16
heads = 2
[matcher]
blocks = 1
heads = 2
[schedule]
epochs = 2
batch_pairs = 6
"""


def write_tiny_training(folder: Path) -> TrainingRequest:
    """Write twelve identities of the train split and a training file into `folder`."""
    (folder / "clip.json").write_text(json.dumps(TINY_CLIP), encoding="utf-8")
    config = folder / "train.toml"
    config.write_text(CONFIG, encoding="utf-8")
    rows = [
        {
            "split": "train",
            "id": image.identity,
            "file_path": image.path.name,
            "captions": image.captions,
        }
        for image in draw_people(folder / "people")
    ]
    people = folder / "people" / "people.json"
    people.write_text(json.dumps(rows), encoding="utf-8")
    return TrainingRequest(str(people), str(config), str(folder / "out"))
