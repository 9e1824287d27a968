"""Joins the analyzer and the estimator with a pull request, a command line and a web server.

Transport (Flask, GitHub, Redis) sits at the edge; `bot.core`, `bot.intents` and `bot.render` decide and word
things as pure functions with no I/O and no clock.
"""
