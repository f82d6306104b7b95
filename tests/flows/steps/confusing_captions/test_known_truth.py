from flows.recos.confusion_checks import truth_differs
from schemas.recos import RenderedTruth
from schemas.retrieval_task import RetrievalTask


def truth(question: str, answer: str) -> RenderedTruth:
    return RenderedTruth(
        task=RetrievalTask.CALCULATION,
        generator="a test",
        seed=0,
        question=question,
        answer=answer,
        facts=("one", "two", "three"),
    )


def test_a_fact_of_only_one_image_distinguishes_the_images() -> None:
    for caption, known in (
        ("The sum 17 + 25 is written on a blackboard.", True),
        ("A sum in chalk whose result is 42.", True),
        ("A sum in chalk whose result is 142.", False),
        ("A sum in chalk whose result is 42.5.", False),
        ("A sum is written on a blackboard.", False),
    ):
        differs = truth_differs(caption, truth("17 + 25", "42"), truth("9 + 9", "18"))
        assert differs is known, caption


def test_a_fact_of_both_images_does_not_distinguish_them() -> None:
    caption = "A sum whose result is 42."
    assert not truth_differs(caption, truth("17 + 25", "42"), truth("40 + 2", "42"))
    assert truth_differs("17 + 25 = 42", truth("17 + 25", "42"), truth("40 + 2", "42"))


def test_without_ground_truth_images_are_not_distinguished() -> None:
    assert not truth_differs("17 + 25", truth("17 + 25", "42"), None)
    assert not truth_differs("17 + 25", None, truth("17 + 25", "42"))
