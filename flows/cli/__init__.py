"""The commands of `loupe`, one file a group."""
