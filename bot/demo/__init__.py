"""The demonstration: the real web process, queue and workers against a local GitHub, started and stopped as one.

`stack` the processes, `hub` the client of the hub's control API, `sample` the repository with its pull request, `story`
what is done and shown, `show` how it is printed.
"""
