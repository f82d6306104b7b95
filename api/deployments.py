"""The pipelines that `loupe up` registers in Prefect: each is a flow, by its name in this module.

`prefect deploy` and the worker ask for `loupe.api.deployments:shop`; what the name stands for is in
`pipelines.json` of the home.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from prefect import Flow, flow
from prefect.client.schemas import State

from loupe.api.loading import load_pipeline
from loupe.api.pipeline import Pipeline
from loupe.flows.engine.prefect import run_in_prefect
from loupe.flows.engine.stopping import Budget
from loupe.models.profiles.settings import Settings, load_settings, make_home
from loupe.schemas.errors import LoupeError, UsageError
from loupe.schemas.processes import write_atomically
from loupe.services.credentials import private_folder
from loupe.services.prefect_server import DEPLOYMENTS, WORK_POOL, deployments_in
from loupe.sources.remote import quiet

_LISTED = "pipelines.json"


def register_pipelines(
    settings: Settings, named: list[str], say: Callable[[str], None] = quiet
) -> dict[str, str]:
    """Add pipelines to the deployments of a home; return the name of each there, as it was named.

    One that cannot be used, also of those that were added before, is left out, and `say` is called
    with the reason.

    Raises:
        UsageError: the name of one is that of a shipped flow, or the only one cannot be used.
    """
    make_home(settings.home)
    listed = _listed(settings.home)
    names: dict[str, str] = {}
    for one in named:
        try:
            pipeline = load_pipeline(one, say)
        except LoupeError as error:
            if len(named) == 1:
                raise
            say(f"{one} is left out: {error}")
            continue
        place, separator, name = one.partition(":")
        path = Path(place)
        is_file = path.suffix in (".py", ".toml")
        target = f"{path.resolve()}{separator}{name}" if is_file else one
        listed[_identifier(pipeline.name)] = {"name": pipeline.name, "target": target}
        names[one] = f"{pipeline.name}/default"
    shipped = yaml.safe_load(DEPLOYMENTS.read_text(encoding="utf-8"))
    taken = {str(one["entrypoint"]).rpartition(":")[2] for one in shipped["deployments"]}
    for identifier, values in listed.items():
        if identifier in taken:
            raise UsageError(f"the name {values['name']!r} is that of a flow of Loupe; use another")
        try:
            load_pipeline(values["target"])
        except LoupeError as error:
            say(f"{values['name']}/default is left out: {error}")
            continue
        shipped["deployments"].append(
            {
                "name": "default",
                "entrypoint": f"{__name__}:{identifier}",
                "description": f"Builds {values['name']} from {Path(values['target']).name}.",
                "tags": [values["name"]],
                "work_pool": {"name": WORK_POOL},
            }
        )
    write_atomically(settings.home / _LISTED, json.dumps(listed, indent=1).encode())
    private_folder(settings.home, "prefect")
    write_atomically(deployments_in(settings.home), yaml.safe_dump(shipped).encode())
    return names


def _listed(home: Path) -> dict[str, dict[str, str]]:
    file = home / _LISTED
    found: dict[str, dict[str, str]] = json.loads(file.read_bytes()) if file.exists() else {}
    return found


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name if not name[:1].isdigit() else f"_{name}")


def flow_of(pipeline: Pipeline) -> Flow[..., State[None]]:
    """Return the Prefect flow that runs a pipeline."""

    def build(
        profile: str | None = None,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        wait: bool = False,
    ) -> State[None]:
        return run_in_prefect(
            lambda context: pipeline.run_in(context, profile, wait=wait).report,
            Budget(max_cost, max_tokens),
        )

    build.__doc__ = f"Builds {pipeline.name}, as far as it can be done now."
    return flow(name=pipeline.name, persist_result=False)(build)


def __getattr__(name: str) -> Any:
    listed = {} if name.startswith("__") else _listed(load_settings().home)
    if name not in listed:
        raise AttributeError(name)
    return flow_of(load_pipeline(listed[name]["target"]))
