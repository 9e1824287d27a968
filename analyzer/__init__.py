"""What a PyTorch training program does, found out without running it.

Knows Python and PyTorch programs. Knows nothing of GitHub, of queues or of how much memory a GPU has, and reads
no file but through the `Files` protocol. Other packages import `analyzer.api` and `analyzer.findings` only
(and `errors` and `toml`, behind which there is nothing).
"""
