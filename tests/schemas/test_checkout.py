import tomllib
from pathlib import Path

from loupe.schemas.checkout import install_command

ROOT = Path(__file__).parents[2]


def test_packages_that_contradict_ours_are_installed_without_what_they_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["vision"]
    assert install_command("vision") == f"uv pip install --no-deps {' '.join(map(repr, wanted))}"
    assert install_command("torch") == "uv pip install -e '.[torch]'"
