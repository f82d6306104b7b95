"""`build-ufine3c` with a real language model, on published descriptions of people.

SmolLM2 writes plausible sentences and invents facts: its answers must be accepted or rejected with
a reason, and every released rewrite must have passed the checks.
"""

import json
from pathlib import Path

import pytest

from loupe.db.entities import find
from loupe.db.store import Store
from loupe.flows.rewriting import STAGE
from loupe.release.verify import verify_release
from loupe.schemas.records import Granularity, Rewrite
from tests.flows.command_line import Loupe
from tests.flows.worlds import write_people, write_toml
from tests.person_sets import real_texts
from tests.servers.smollm2 import smollm2_folder
from tests.servers.vllm_server import vllm_cpu_server

pytestmark = [pytest.mark.vllm, pytest.mark.slow]  # the model is in a package of that environment

PROMPT = """---
id: say_again
version: "1"
source: our own
variables: [description]
---
Rewrite this description of a person in other words. Keep every fact, add nothing.

{{ description }}
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("captions", [2, pytest.param(14, marks=pytest.mark.soak)])
def test_every_rewrite_of_a_real_model_is_released_or_has_a_reason(
    loupe: Loupe,
    tmp_path: Path,
    home: Path,
    home_store: Store,
    vllm_environment: Path,
    captions: int,
) -> None:
    people = tmp_path / "people"
    annotations = write_people(people, Granularity.FINE, identities=captions, images=1, captions=1)
    rows = json.loads(annotations.read_text("utf-8"))
    texts = sorted(real_texts(), key=len)[:captions]
    for row, text in zip(rows, texts, strict=True):
        row["captions"] = [text]
    annotations.write_text(json.dumps(rows), encoding="utf-8")
    source = {
        "name": "published",
        "format": "cuhk-pedes",
        "annotations": annotations,
        "images": people,
        "permitted_by": "drawn here",
    }
    build = {"dataset": "people", "gate": "auto", "max_unusable_share": 1.0, "sources": [source]}
    config = write_toml(tmp_path / "build.toml", build)
    (tmp_path / "say_again.md").write_text(PROMPT, encoding="utf-8")
    with vllm_cpu_server(vllm_environment, smollm2_folder(vllm_environment), tmp_path) as server:
        model = {
            "provider": "openai",
            "name": server.model,
            "revision": "0.1.2",
            "base_url": server.base_url,
            "sampling": {"temperature": 0.4, "top_p": 0.9, "seed": 1, "max_tokens": 160},
        }
        rewrite = {"prompt": tmp_path / "say_again.md", "models": [model]}
        profile = write_toml(
            tmp_path / "own.toml", {"description": "one", "judge": False, "rewrite": rewrite}
        )
        built = loupe("run", "build-ufine3c", "--config", config, "--profile", profile)
    assert built.exit_code == 0, built.err
    release = home / "releases" / "people-0.1.0"
    assert verify_release(release).problems == []
    rewrites = list(find(home_store, "people", Rewrite.kind))
    unread = loupe("quarantine", "people", "--json").json["records"]
    assert len(rewrites) + sum(one["stage"] == STAGE for one in unread) == captions
    assert {one.state for one in rewrites} <= {"accepted", "rejected"}
    accepted = {one.record(Rewrite).text for one in rewrites if one.state == "accepted"}
    rows = json.loads((release / "people.json").read_text("utf-8"))
    released = {text for row in rows for text in row["captions"]}
    assert released - accepted == set(texts), (
        "all released texts but the sources are accepted rewrites"
    )
    assert accepted <= released
