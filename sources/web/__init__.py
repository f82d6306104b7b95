"""Download images from the web politely, from public addresses only, and verify them."""
