"""Numerical calculation: what is calculated, how it looks, and what can be said of the picture."""

from typing import Any

from schemas.retrieval_task import RetrievalTask
from sources.demonstration.chance import Chance
from sources.rendered.calculation_images import CalculationLook, draw_look, draw_picture
from sources.rendered.calculations import Calculation, decimal_text, draw_calculation, number_text
from sources.rendered.figures import Figure, draw_figure
from sources.rendered.fonts import FontShelf
from sources.rendered.task_image import RenderedImage, rendered, with_article

_TAILS = {
    "= ?": "an equals sign and a question mark follow it",
    "=": "an equals sign follows it, and nothing after that",
    "= ___": "a blank line after the equals sign waits for the result",
}
_FIGURES_SHARE = 0.3


class CalculationDraft:
    """A calculation or an area that is not yet drawn."""

    def __init__(self, what: Calculation | Figure, shelf: FontShelf) -> None:
        self._what = what
        self._shelf = shelf

    @property
    def question(self) -> str:
        """The calculation as it is read, or the area that is asked for."""
        return self._what.question

    def render(self, chance: Chance, seed: int) -> RenderedImage:
        """The picture in a drawn look."""
        look = draw_look(chance, self._shelf, self._what)
        return rendered(
            RetrievalTask.CALCULATION,
            seed,
            draw_picture(self._what, look, self._shelf, chance),
            question=self.question,
            answer=self._what.answer,
            look=look.named(),
            truth=_truth(self._what),
            facts=_facts(self._what, look, self._shelf),
        )


def draw_calculation_task(chance: Chance, shelf: FontShelf) -> CalculationDraft:
    """A calculation, or in three of ten cases the area of a figure."""
    is_figure = chance.happens(_FIGURES_SHARE)
    return CalculationDraft(draw_figure(chance) if is_figure else draw_calculation(chance), shelf)


def _truth(what: Calculation | Figure) -> dict[str, Any]:
    if isinstance(what, Calculation):
        return {"kind": what.kind}
    return {
        "kind": "area",
        "shape": what.shape,
        "measures": {name: decimal_text(size) for name, size in what.measures.items()},
        "unit": what.unit,
        "area": number_text(what.area),
        "times_pi": what.is_round,
    }


def _facts(what: Calculation | Figure, look: CalculationLook, shelf: FontShelf) -> tuple[str, ...]:
    facts = _figure_facts(what, look) if isinstance(what, Figure) else _number_facts(what, look)
    if look.heading:
        facts.append(f"the heading reads {look.heading}")
    if look.is_hand:
        facts.append("the writing is a little uneven, as by hand")
    else:
        style = "with serifs" if shelf.styles[look.typeface] == "serif" else "without serifs"
        facts.append(f"the text is printed in letters {style}")
    return tuple(facts)


def _number_facts(what: Calculation, look: CalculationLook) -> list[str]:
    facts = [
        f"{what.name} is {look.written} in {look.ink.name} on {look.surface.phrase}",
        f"the result is {what.answer}",
        *what.facts,
    ]
    if look.is_column:
        facts.append("the two numbers stand one above the other over a line")
    elif look.tail:
        facts.append(_TAILS[look.tail])
    return facts


def _figure_facts(what: Figure, look: CalculationLook) -> list[str]:
    figure = with_article(f"{what.shape} with {what.said_measures}")
    drawn = "drawn by hand" if look.is_hand else "printed"
    facts = [
        f"{figure} is {drawn} in {look.ink.name} on {look.surface.phrase}",
        f"the area of the {what.shape} is {what.answer}",
    ]
    for name, size in what.measures.items():
        facts.append(f"the {name} is labelled {decimal_text(size)} {what.unit}")
    facts.append(f"the text below the figure reads {look.tail.rstrip('.')}")
    facts.append(f"the figure is filled in light {look.tint}" if look.tint else "it is not filled")
    return facts
