"""Analysis in processes of its own, so that a child that dies or hangs costs one file and not the run."""
