"""The servers that Loupe starts and looks after: Prefect, Label Studio and the image server."""
