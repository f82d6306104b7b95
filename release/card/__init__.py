"""What a release says about itself: documents, licences, statistics, leaks."""
