"""What pages say before an answer is submitted that could not be used."""

from typing import Any

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.interfaces.text_pages import DescriptionWriting, RewriteRevision
from tests.annotate.browser import PAGE_TEST, Bench
from tests.annotate.interfaces.proposed import person
from tests.annotate.interfaces.test_rewrite_revision import content_of, shown_in
from tests.annotate.world import REWRITE, World

pytestmark = list(PAGE_TEST)


def test_an_unusable_answer_is_not_submitted_and_the_page_says_why(
    world: World, bench: Bench
) -> None:
    drawn = person("objected")
    rewrite = world.add(REWRITE, picture=drawn.data)
    content = content_of(world, rewrite, bench.images_url)
    pictures = {drawn.picture.sha256: drawn.data}
    page = bench.open(RewriteRevision(), content, pictures, "Is the rewrite as true")

    page.press("3", "Control+Enter")
    expect(page, "Choose why, then submit")
    page.press("2")
    expect(page, "")
    page.press("Control+Enter")
    expect(page, "Nothing is changed: edit the text, or submit again to accept it as it is")
    page.press("Enter", "Control+A", "Delete", "Control+Enter")
    expect(page, "The text is empty: write it, or choose Reject")
    page.type("A woman in a red coat.")
    answer = RewriteRevision().read_annotation(page.submit(), shown_in(world, rewrite))
    assert isinstance(answer, ReviewAnswer)
    assert (answer.verdict, answer.texts) == ("edit", {"text": "A woman in a red coat."})


def test_the_least_length_of_a_description_is_that_of_its_reader() -> None:
    assert "loupe-least-20" in DescriptionWriting().config


def expect(page: Any, said: str) -> None:
    """Wait until the status line objects with exactly that; "": does not object."""
    page.browser_page.wait_for_function(
        """said => {
          const frame = document.querySelector("iframe.loupe-saved");
          const line = frame?.contentDocument?.getElementById("saved");
          if (!line) return false;
          const isObjection = line.classList.contains("missing");
          return said ? isObjection && line.textContent === said : !isObjection;
        }""",
        arg=said,
    )
