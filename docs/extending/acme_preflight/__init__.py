"""House rules of Acme for Preflight."""
