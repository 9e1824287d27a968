"""The pages that people open. The webhook's door is another room: nothing here stands in its way.

Calls to GitHub (somebody logs in) and estimates (somebody asks "what if?") are few at a time and have time limits.
"""
