"""People found without any download: OpenCV's pedestrian HOG, and motion where the camera is still.

`camera` tells how the camera moved against the `background`; what differs from that becomes
`blobs`; `hog` looks for people in them, in the places of the last frame and now and then
everywhere; `people` makes tight, scored boxes of both; `appearance` says in a vector how each
looks. `detector` holds it together and is what others import.
"""
