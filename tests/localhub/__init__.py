"""The local GitHub, met by PyGithub and by `requests`: it serves what git has and refuses what GitHub refuses."""
