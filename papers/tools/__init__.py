"""Programs that write pages of the documentation from the papers' data and results."""
