"""The work itself: plain functions, records in, one result or one rejection per input."""
