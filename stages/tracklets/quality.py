"""How good a crop is, as one number: what decides between neighbours in time.

It knows no thresholds, so that what is kept of a track does not depend on how it will be filtered.
"""

from schemas.video import CropMeasures
from stages.tracklets.measures import QuickMeasures

HALF_SHARPNESS = 100.0
HALF_HEIGHT_PX = 160.0


def quality(measures: CropMeasures | QuickMeasures, score: float) -> float:
    """How sharp, large, whole, unoccluded and sure a crop is, 0 to 1.

    Sharpness and height count by x / (x + h), which is a half at h and saturates above: twice as
    sharp is much where all is blurred and nothing where all is sharp. All parts are multiplied, so
    that none makes up for another that is missing.
    """
    sharp = measures.sharpness / (measures.sharpness + HALF_SHARPNESS)
    large = measures.height_px / (measures.height_px + HALF_HEIGHT_PX)
    whole = 1 - measures.cut_off
    alone = (1 - measures.overlap) / (1 + measures.other_people)
    return sharp * large * whole * alone * score
