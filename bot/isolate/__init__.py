"""Children that do what might kill them: parse and interpret other people's source.

`child` is one side of the pipe and `parent` the other, for any work; `analysis` is the work of ``preflight check`` and
`pool` hands it out. A child has limits, an empty environment and nothing worth stealing. Its death costs one file.
"""
