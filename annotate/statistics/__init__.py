"""Statistics of review: agreement, progress, accuracy, hours, forecast, and their page."""
