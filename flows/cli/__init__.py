"""The commands of `loupe`, one file per group."""
