"""The exact tier: the real model's training step under fake tensors, and a guard around a real run.

The only part of Preflight that imports torch, and the only one that runs code of the user's: never the bot, and on the
command line only where ``--exact`` asks for it.
"""
