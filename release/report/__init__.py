"""A release as pages: one folder of static HTML that opens from the disk, without a server.

`index.html` describes the release as a whole and can be read without JavaScript. All
rows come from scripts below `data/`, which are loaded when they are looked at: a page that was
opened from the disk may load scripts and images that lie beside it, and nothing else.
"""
