"""The code of docs/python.md, run from top to bottom as a reader would."""

import re
import sys
from pathlib import Path

import pytest

from tests.api.shop import draw_photograph
from tests.flows.worlds import loupe

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / ".loupe"))
    (tmp_path / "photos").mkdir()
    (table,) = blocks("csv")
    (tmp_path / "shop.csv").write_text(table, encoding="utf-8")
    for number, line in enumerate(table.splitlines()[1:]):
        draw_photograph(tmp_path / "photos" / line.rpartition(",")[2], number)
    (tmp_path / "material.md").write_text("{{ text }}", encoding="utf-8")
    first, *rest = blocks("python")
    (tmp_path / "shop.py").write_text(first, encoding="utf-8")
    names = {"__name__": "shop", "__file__": str(tmp_path / "shop.py")}
    monkeypatch.setitem(sys.modules, "shop", type(sys)("shop"))
    for code in (first, *rest):
        exec(compile(code, "docs/python.md", "exec"), names)  # noqa: S102 - our own page
    (tmp_path / "shop.toml").write_text(blocks("toml")[0], encoding="utf-8")
    for name in ("shop.py", "shop.toml"):
        run = loupe(tmp_path / name.replace(".", "-"), "run", str(tmp_path / name))
        assert run.wait() == 0, run.output
