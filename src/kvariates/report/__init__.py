"""Pictures, result files, and the tables of the API pages."""
