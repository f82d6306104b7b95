"""Sees what is in drawn stills, from their pixels alone; of photographs it says little.

`preparing` undoes the style of a drawing and finds its ink, `cutting` cuts out what the ink
surrounds, `shapes` makes numbers of it, and `seeing` names it by what `knowledge` remembers of
drawings like these (`knowledge.npz`, made by `python -m benchmarks.stills_seeing --fit`).
"""
