"""Analysis in a child process with limits: no secrets, no network, and its death is not ours."""
