"""App of the deployment test."""
