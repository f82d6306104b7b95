"""The engine behind the stages: runner, gates, paid calls, importing, releasing."""
