# %% [markdown]
# # Review and disagreement
#
# In this notebook a pipeline stops at a gate, because people must decide. You look at the queue, decide, and let the pipeline go on. Then you measure how well two people agree, which says how much a label is worth. It needs no network and no Label Studio, and takes less than a minute.
#
# ## A pipeline that asks
#
# The step guesses whether a picture is warm or cold, and the gate asks people about every guess.

# %%
import csv
import random
from pathlib import Path
from typing import Literal

from PIL import Image as Pillow

import loupe
from loupe import Image

Path("swatches").mkdir(exist_ok=True)
chance = random.Random(7)
with open("swatches.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["swatch", "text"])
    for number in range(6):
        tint = tuple(chance.randrange(256) for _ in range(3))
        noise = Pillow.effect_noise((120, 80), 60).convert("RGB")
        picture = Pillow.blend(Pillow.new("RGB", (120, 80), tint), noise, 0.3)
        picture.save(f"swatches/{number}.png")
        table.writerow([number, f"Swatch number {number}."])


class Tone(loupe.Record, kind="tone"):
    tone: Literal["warm", "cold"]


@loupe.step(version="1")
def tone(image: Image) -> Tone:
    red, _, blue = image.pixels.reshape(-1, 3).mean(axis=0)
    return Tone(tone="warm" if red > blue else "cold")


swatches = loupe.source(
    "csv",
    "swatches.csv",
    images="swatches",
    identity="swatch",
    captions=["text"],
    licence="CC0-1.0",
)
pipeline = loupe.Pipeline(
    "swatches",
    version="0.1.0",
    sources=[swatches],
    steps=[
        tone,
        loupe.gate("tones", of=Tone, page="choice", field="tone", policy="required"),
        loupe.release(),
    ],
)
pipeline

# %% [markdown]
# The run does all that it can and ends at the gate:

# %%
waiting = pipeline.run(quiet=True)
waiting

# %% [markdown]
# ## The queue
#
# Each gate has a queue. With `loupe up`, its items appear in Label Studio, and annotators see a page with the picture and the choice ([Review](../review.md)). The commands work with and without it.

# %% language="bash"
# loupe queue stats

# %% [markdown]
# ## Decide
#
# The lead may accept items in bulk, and states a reason. Here we accept all that the search finds. Normally you would leave that to people who look at each one.

# %% language="bash"
# loupe queue search swatches-tones --ids | loupe queue accept swatches-tones - --reason "all six"

# %%
report = pipeline.run(quiet=True)
report

# %% [markdown]
# Every decision is kept, with who took it, and why:

# %%
with loupe.open_store() as store:
    decisions = store.decisions("swatches")
[(one["verdict"], one["by"], one["reason"]) for one in decisions.slice(0, 2).to_pylist()]

# %% [markdown]
# ## How much is a label worth?
#
# When two people answer the same items, count how often they agree. That alone misleads: if nine of ten swatches are warm, two people who always say *warm* agree perfectly and know nothing. Kappa and alpha correct for agreement by chance: 1 is perfect, 0 is what guessing gives.
#
# `loupe queue stats` prints these figures for a real queue. The function behind it takes any answers. (It is not part of the public API and may change.)
#
# Ann is careful. Bea agrees with her on clear cases, and guesses on the others.

# %%
from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.statistics.agreement import ItemAnswers, agreement


def answer(tone: str) -> ReviewAnswer:
    return ReviewAnswer(verdict="accept", choices={"tone": (tone,)})


def items(clear: float) -> list[ItemAnswers]:
    chance = random.Random(1)
    found = []
    for number in range(60):
        ann = chance.choice(["warm", "cold"])
        bea = ann if chance.random() < clear else chance.choice(["warm", "cold"])
        found.append(ItemAnswers(f"{number}", {"Ann": answer(ann), "Bea": answer(bea)}))
    return found


for clear in (0.9, 0.6, 0.0):
    measured = agreement(items(clear)).main
    alpha = measured.krippendorff
    print(
        f"{clear:4.0%} of the cases are clear: equal answers {measured.observed.value:.0%}, "
        f"alpha {alpha.value:.2f} ({alpha.low:.2f} to {alpha.high:.2f})"
    )

# %% [markdown]
# Even guessing gives equal answers in about half of the cases. Alpha shows it: the interval of the last line contains 0. Where alpha is low, more annotators do not help. Look at the items that people disagree about, and write a better instruction: the question is unclear.
