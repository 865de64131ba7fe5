"""App of the deployment test with shared noise."""
