"""A strategist and refiner of contrastive benchmarks that sees drawn stills.

`proposing` finds what could be changed in a picture, `wording` says it, `strategist` tries it and
writes strategies. `inserting` puts details into captions, `refining` those that tell images apart,
and `model` answers requests.
"""
