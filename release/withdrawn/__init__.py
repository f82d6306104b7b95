"""Withdrawn items: notices to holders of releases, and the files that state them."""
