# %% [markdown]
# # A step of your own
#
# In this notebook you cut two photographs into tiles, write a step that drops dull tiles and another that names their main colour, look at a preview, and make a release. It needs no network and takes less than a minute. Open `docs/notebooks/own_step.py` in Jupyter (with Jupytext) to run it yourself.
#
# ## Some pictures
#
# scikit-learn brings two photographs along. Their tiles stand for your own images. A table names each tile and says what it is a part of.

# %%
import csv
from pathlib import Path

from PIL import Image as Pillow
from sklearn.datasets import load_sample_image

subjects = {"china.jpg": "a palace in China", "flower.jpg": "a dahlia"}
Path("tiles").mkdir(exist_ok=True)
rows = []
for name, subject in subjects.items():
    photograph = Pillow.fromarray(load_sample_image(name))
    for row in range(3):
        for column in range(4):
            tile = f"{Path(name).stem}-{row}{column}"
            box = (column * 160, row * 140, column * 160 + 160, row * 140 + 140)
            photograph.crop(box).save(f"tiles/{tile}.png")
            rows.append({"tile": tile, "text": f"A part of a photograph of {subject}."})

with open("tiles.csv", "w", newline="") as file:
    table = csv.DictWriter(file, ["tile", "text"])
    table.writeheader()
    table.writerows(rows)

len(rows)

# %% [markdown]
# ## Two steps
#
# A step is a function. Its types say what it does: `varied` takes an image and says whether to keep it, so it is a filter. `colour` takes an image and makes a record of your own, which will be a column of the release.

# %%
from typing import Literal

import loupe
from loupe import Image, Rejection


class Colour(loupe.Record, kind="colour"):
    """The channel that is strongest in an image."""

    strongest: Literal["red", "green", "blue"]
    share: float


@loupe.step(version="1")
def varied(image: Image, least: float = 12.0) -> bool | Rejection:
    """Keeps images with some contrast."""
    contrast = loupe.images.contrast(image)
    if contrast < least:
        return Rejection.of("dull", f"The contrast is {contrast:.0f}, less than {least:.0f}.")
    return True


@loupe.step(version="1")
def colour(image: Image) -> Colour:
    """Finds the strongest channel."""
    means = image.pixels.reshape(-1, 3).mean(axis=0)
    strongest = int(means.argmax())
    share = float(means[strongest] / means.sum())
    return Colour(strongest=("red", "green", "blue")[strongest], share=round(share, 2))


# %% [markdown]
# ## A pipeline
#
# Steps run in the order in which they are listed. The last one makes the release.

# %%
tiles = loupe.source(
    "csv", "tiles.csv", images="tiles", identity="tile", captions=["text"], licence="CC-BY-2.0"
)
pipeline = loupe.Pipeline(
    "tiles",
    version="0.1.0",
    sources=[tiles],
    steps=[varied, colour, loupe.release(test_share=0.25)],
)
pipeline

# %% [markdown]
# ## Look before you run
#
# A preview takes a few records through all steps, in a store that is thrown away. You see what each step made of each image, and what it refused and why.

# %%
pipeline.preview(4)

# %% [markdown]
# ## Run it
#
# The run stores what it does in the folder `.loupe`. If you interrupt it, run the cell again: it goes on where it stopped.

# %%
report = pipeline.run(quiet=True)
report

# %% [markdown]
# The tiles of plain sky are too dull. They are not lost: the store has them, in the state `rejected`.

# %%
with loupe.open_store() as store:
    refused = store.items("tiles", Image, state="rejected")
refused.num_rows

# %% [markdown]
# ## The release
#
# The release shows itself. Each row has the record of our step as a column.

# %%
release = report.release
release

# %%
release.verify()
table = release.to_arrow()
table.select(["identity", "split", "colour"]).slice(0, 3).to_pylist()

# %% [markdown]
# And every row knows where it comes from:

# %%
release.lineage(1)

# %% [markdown]
# ## Change a step
#
# Suppose that the filter is too strict. A parameter is part of the plan of its step, so a run with another value considers all images again. `colour` works only on those that are new to it.

# %%
milder = loupe.Pipeline(
    "tiles",
    version="0.2.0",
    sources=[tiles],
    steps=[varied.using(least=6.0), colour, loupe.release(test_share=0.25)],
)
milder.run(quiet=True)

# %% [markdown]
# The first release is still there, unchanged, and the second one has more tiles:

# %%
[len(loupe.open_release(f"tiles@{version}")) for version in ("0.1.0", "0.2.0")]
