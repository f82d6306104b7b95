"""The pages that reviewers work on, one module each."""
