import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from loupe.release.report.scripts import ScriptWriter, script_json, script_text
from tests.release.report.reading import scripts

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS | st.sampled_from(("</script>", "<!--", "]]>", "\u2028", "\ufeff</SCRIPT ", "&lt;")))
def test_no_text_can_end_a_script_or_line(text: str) -> None:
    written = script_json([text])
    assert json.loads(written) == [text]
    assert not re.search("[<>&\u2028\u2029\ufeff\n\r]", written)


def test_a_script_passes_a_value_to_the_page() -> None:
    assert script_text("rows/3", {"a": 1}) == 'loupeReport("rows/3",{"a":1});\n'


def test_rows_are_divided_into_scripts_in_order(tmp_path: Path) -> None:
    writer = ScriptWriter(tmp_path, "rows", 3)
    for row in range(7):
        writer.add(row)
    writer.finish()
    writer.finish()
    assert scripts(tmp_path, "rows") == [[0, 1, 2], [3, 4, 5], [6]]
    assert writer.written == 3
