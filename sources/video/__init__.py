"""Find videos in folders and lists, open them safely, and decode them frame by frame."""
