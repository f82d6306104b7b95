"""How the learning rate goes: up in a line, down in half a cosine (UFineBench, section 5.4)."""

import math


def rate_factor(step: int, steps: int, warmup_steps: int) -> float:
    """What the learning rates are multiplied with in `step`, counted from 0 of `steps`.

    Warm-up reaches 1 in its last step; what follows is (1 + cos(pi t)) / 2 with t from 0 to 1, so
    that the step after the last one would learn nothing.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    passed = (step - warmup_steps) / max(1, steps - warmup_steps)
    return (1.0 + math.cos(math.pi * min(1.0, passed))) / 2.0
