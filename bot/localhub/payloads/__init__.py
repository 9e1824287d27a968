"""JSON bodies, built from the model: one module per family of GitHub's schemas. They read and never decide."""
