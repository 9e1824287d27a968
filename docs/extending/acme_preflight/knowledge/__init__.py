"""What Acme's libraries do."""
