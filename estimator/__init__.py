"""How many bytes a training step needs, moment by moment, and whether they fit.

Knows memory and hardware; asks `analyzer.api` which value reaches a call in a program. Knows nothing of pull
requests. Other packages import `estimator.api` only.
"""
