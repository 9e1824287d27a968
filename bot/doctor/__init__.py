"""`preflight doctor`: is everything in place for reviews to happen, and what to do where it is not."""
