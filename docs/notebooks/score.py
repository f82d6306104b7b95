# %% [markdown]
# # Score a model
#
# A release asks a model two questions: which image does this caption describe, and which caption describes this image? In this notebook you build a small release, score two simple models on it, and find out whether the difference between them means anything. It needs no network and takes about a minute.
#
# ## A release of coloured shapes
#
# Each picture shows a shape on a background, and its caption names both colours.

# %%
import csv
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

import loupe

colours = {
    "red": (214, 39, 40),
    "orange": (255, 127, 14),
    "yellow": (241, 206, 60),
    "green": (44, 160, 44),
    "blue": (31, 119, 180),
    "purple": (148, 103, 189),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
Path("shapes").mkdir(exist_ok=True)
with open("shapes.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["shape", "text"])
    for front, back in product(colours, colours):
        if front != back:
            picture = Pillow.new("RGB", (96, 96), colours[back])
            ImageDraw.Draw(picture).ellipse((20, 20, 76, 76), fill=colours[front])
            picture.save(f"shapes/{front}-on-{back}.png")
            table.writerow([f"{front}-on-{back}", f"A {front} disc lies on a {back} ground."])

shapes = loupe.source(
    "csv",
    "shapes.csv",
    images="shapes",
    identity="shape",
    captions=["text"],
    split="test",
    licence="CC0-1.0",
)
report = loupe.Pipeline("shapes", version="0.1.0", sources=[shapes], steps=[loupe.release()]).run(
    quiet=True
)
release = report.release
release

# %% [markdown]
# ## Two models
#
# A model turns images and texts into vectors, and calls an image and a text similar if their vectors point in the same direction. Real ones are named on the command line, such as `loupe evaluate DIR --embedder open_clip:ViT-B-32@openai`. Ours are small enough to be written here, and their vectors are handed over as files.
#
# The first model knows which colours there are, and not where. The second one looks at the disc and at the ground separately.

# %%
names = list(colours)
palette = np.array([colours[name] for name in names], float)


def nearest(pixels):
    """Return how much of each colour there is among some pixels."""
    distances = ((pixels.reshape(-1, 1, 3) - palette) ** 2).sum(axis=2)
    return np.bincount(distances.argmin(axis=1), minlength=len(names)) / len(distances)


def image_vectors(picture, *, sees_places):
    pixels = np.asarray(picture, float)
    disc, ground = nearest(pixels[38:58, 38:58]), nearest(pixels[:10])
    return np.concatenate([disc, ground]) if sees_places else disc + ground


def text_vectors(text, *, sees_places):
    words = text.lower().split()
    disc = np.array([float(name == words[1]) for name in names])
    ground = np.array([float(name == words[-2]) for name in names])
    return np.concatenate([disc, ground]) if sees_places else disc + ground


rows = list(release.rows("test"))
for model, sees_places in {"colours": False, "places": True}.items():
    images = [image_vectors(release.image(row), sees_places=sees_places) for row in rows]
    texts = [
        text_vectors(text, sees_places=sees_places) for row in rows for text in row["captions"]
    ]
    np.save(f"{model}-images.npy", np.array(images, np.float32))
    np.save(f"{model}-texts.npy", np.array(texts, np.float32))

# %% [markdown]
# ## The scores

# %% language="bash"
# loupe evaluate shapes@0.1.0 --embeddings colours-images.npy colours-texts.npy --name colours

# %% [markdown]
# `R@1` is the share of queries whose first answer is right. The row *Chance* is what a model reaches that knows nothing; compare every score with it. The first model cannot distinguish a red disc on blue from a blue disc on red. Ties count as errors, so it gets none of them right.

# %% language="bash"
# loupe evaluate shapes@0.1.0 --embeddings places-images.npy places-texts.npy --name places

# %% [markdown]
# ## Is the difference real?
#
# A benchmark is a sample. On another one, both models would score a little differently. The leaderboard therefore compares each model with the best one on the same queries. If it cannot tell them apart, it says so.

# %% language="bash"
# loupe leaderboard shapes@0.1.0
