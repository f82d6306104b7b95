"""The report of a release: a folder of static HTML that opens from disk without a server.

`index.html` describes the release as a whole and can be read without JavaScript. All rows are in
scripts below `data/`, which are loaded on demand: a page that is opened from disk can load only
scripts and images from its own folder.
"""
