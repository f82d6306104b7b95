"""A captioner of images: says what it is told of them, or what it sees in drawn stills.

A `Teller` knows what can be said of one image and writes captions of any size: `facts` says what a
request tells, `still` what is seen in a drawing, `colours` what can be said of any picture.
`revising` chooses the size of a caption, `confusing` changes the words of another one.
"""
