"""How metrics and scores are written, on the leaderboard and on the terminal."""

from schemas.evaluation import Score


def column_title(metric: str) -> str:
    """What the column of a metric is called: its name in words."""
    return metric.replace("_", " ")


def score_text(score: Score | None, metric: str) -> str:
    """A score as it is printed: percentages with two decimals, ranks as short as they are."""
    if score is None:
        return "–"
    return _shown(score.value, metric)


def interval_text(score: Score | None, metric: str) -> str:
    """The interval of a score, or nothing."""
    if score is None or score.low is None or score.high is None:
        return ""
    return f"{_shown(score.low, metric)}–{_shown(score.high, metric)}"


def _shown(value: float, metric: str) -> str:
    return f"{value:,.10g}" if metric == "median_rank" else f"{value:.2f}"
