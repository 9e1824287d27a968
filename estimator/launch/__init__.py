"""Launch files to `LaunchConfig`s: one file per format, found by its ``READER``. Nothing is executed or fetched."""
