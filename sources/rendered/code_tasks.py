"""Code reasoning: programs that were run, how they look, and what can be said of the picture."""

import shutil
from collections.abc import Collection

from schemas.records import Rejection
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.chance import Chance
from sources.rendered.code_images import CodeLook, draw_code_look, draw_code_picture
from sources.rendered.fonts import FontShelf
from sources.rendered.languages import LANGUAGES_BY_NAME, Which
from sources.rendered.program_grammar import draw_program
from sources.rendered.programs import Program
from sources.rendered.sandbox import STAGE, Limits, ProgramResult, run_program
from sources.rendered.task_image import RenderedImage, rendered, with_article

_LONGEST_ANSWER = 60


class CodeDraft:
    """A program that was neither run nor drawn yet."""

    def __init__(self, program: Program, shelf: FontShelf, limits: Limits, which: Which) -> None:
        self._program = program
        self._shelf = shelf
        self._limits = limits
        self._which = which

    @property
    def question(self) -> str:
        """The program."""
        return self._program.text

    def run(self) -> ProgramResult:
        """What the program does in the sandbox."""
        program = self._program
        return run_program(program.language, program.text, self._limits, self._which)

    def render(self, chance: Chance, seed: int) -> RenderedImage | Rejection:
        """The picture, with what the program printed; a rejection where that is no single line."""
        result, program = self.run(), self._program
        answer = result.output.rstrip("\n")
        refusal = result.refusal() or _answer_refusal(program, answer)
        if refusal is not None:
            return refusal
        language = LANGUAGES_BY_NAME[program.language]
        file_name = program.file_stem + language.suffix
        look = draw_code_look(chance, self._shelf, program.text)
        return rendered(
            RetrievalTask.CODE,
            seed,
            draw_code_picture(program.text, language, file_name, look, self._shelf, chance),
            question=program.text,
            answer=answer,
            look=look.named(),
            truth={"language": program.language, "family": program.family},
            facts=_facts(program, language.title, answer, look, file_name),
        )


def _answer_refusal(program: Program, answer: str) -> Rejection | None:
    """Why what a program printed is no answer: it is empty, has several lines or is too long."""
    if len(answer.splitlines()) == 1 and len(answer) <= _LONGEST_ANSWER:
        return None
    detail = f"the program printed {answer[:80]!r}, wanted one line of at most {_LONGEST_ANSWER}"
    context = {"language": program.language, "program": program.text}
    return Rejection(stage=STAGE, reason="no_answer", detail=detail, context=context)


def draw_code_task(
    chance: Chance,
    shelf: FontShelf,
    languages: Collection[str],
    limits: Limits | None = None,
    which: Which = shutil.which,
) -> CodeDraft:
    """A program in one of `languages`."""
    return CodeDraft(draw_program(chance, languages), shelf, limits or Limits(), which)


def _facts(
    program: Program, title: str, answer: str, look: CodeLook, file_name: str
) -> tuple[str, ...]:
    count = len(program.text.splitlines())
    place = "on a slide" if look.place == "slide" else f"in {with_article(look.tone)} code editor"
    facts = [
        f"{with_article(title)} program of {count} lines is shown {place}",
        f"the program prints {answer}",
        *program.facts,
    ]
    if look.place == "slide":
        facts.append(f"the title of the slide reads {look.title.rstrip('?')}")
        facts.append(f"the code stands in a {look.tone} box")
    else:
        facts.append(f"the file is called {file_name}")
    numbers = "line numbers stand" if look.numbers else "no line numbers stand"
    facts.append(f"{numbers} to the left of the code")
    return tuple(facts)
