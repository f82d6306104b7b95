"""Find people without downloads: OpenCV's pedestrian HOG, and motion if the camera is still.

`background` estimates the camera's movement against the background and finds regions that differ
(blobs). `people` searches them with the HOG, as it does at the positions of the last frame and, now
and then, everywhere, and makes tight, scored boxes. `detector` combines them, adds a vector of
appearance, and is what others import.
"""
