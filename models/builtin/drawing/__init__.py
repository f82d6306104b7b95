"""Draws things, people, signs and places: what stills of the demonstration are made of.

The demonstration composes scenes of it; the built-in editor draws with it what an instruction asks
for. Everything is drawn into boxes with a `pen`, gets a line of `ink`, and is put into a `style`.
"""
