"""An embedder that knows colours and where they are, and words that say so; nothing is learned.

`palette` makes numbers of colours, `space` lays them out in a vector. `seeing` fills it from an
image, by where a body or a sky would be in it; `reading` from a text, through the lexicon of
persons and one of sceneries, as if it painted what the text says.
"""
