"""The fault-injection suite: the real stack through bad days, and a count of what was lost, doubled or left hanging."""
