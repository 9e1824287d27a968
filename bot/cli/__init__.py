"""The ``preflight`` command: one file per sub-command, found by its file name, never registered anywhere.

A command module has a docstring whose first line is its help, ``configure(parser)`` and ``run(args) -> int`` (the exit
code). It imports its engine inside ``run``, so that ``preflight gpus`` starts without LibCST. Modules whose name starts
with an underscore, and `main`, are not commands; ``HIDDEN = True`` keeps a command out of the list.
"""
