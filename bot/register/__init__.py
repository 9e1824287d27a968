"""Registering the GitHub App with the manifest flow: from `app.yml` to files with the app's secrets."""
