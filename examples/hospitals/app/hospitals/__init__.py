"""Three hospitals, one private mean: the app that the server and every hospital run."""
