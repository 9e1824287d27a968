"""What operators see: structured log lines and Prometheus metrics."""
