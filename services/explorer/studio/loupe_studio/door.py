"""Questions to Loupe, which has the store and the models; LightlyStudio has a copy to look at."""

import os
from typing import Any

import httpx


def ask(what: str, question: dict[str, Any]) -> dict[str, Any]:
    """Send a question to the process of `loupe explore` and return its answer."""
    answer = httpx.post(
        f"{os.environ['LOUPE_DOOR']}/loupe/{what}",
        json=question,
        headers={"Authorization": f"Bearer {os.environ['LOUPE_DOOR_KEY']}"},
        timeout=600,
        trust_env=False,
    )
    answer.raise_for_status()
    return dict(answer.json())
