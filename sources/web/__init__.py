"""Images of the web: asked for politely, from public addresses only, and proven to be images."""
