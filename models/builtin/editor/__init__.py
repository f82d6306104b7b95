"""An editor of drawn stills that works on pixels, guided by plain sentences.

`changes` are what can be done, `grammar` says them and reads them; `canvas` looks at a picture and
knows how each thing in it is drawn (`looks`). `filling` draws the background on where something
was, `recolouring`, `arranging`, `scenery` and `restyling` make the changes, and `model` looks at
what came out before it hands it over.
"""
