"""How well a caption tells its image from the others (ReCoS, section 3.2).

`nearest_others` finds S(t), the k images of D − x nearest to a caption t of image x; `entropy`
makes dis(t) of their similarities, `calibration` finds the temperature, `validation` puts all
together: for arrays once (`score_captions`) or for captions as they change (`CaptionValidator`).
What passes, and when the criterion itself is no use, is said in `schemas.discriminability`.
"""
