"""The local GitHub's page in a real headless Chromium."""
