"""App of the federated benchmark."""
