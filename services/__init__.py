"""The servers that Loupe starts and monitors: Prefect, Label Studio and the image server."""
