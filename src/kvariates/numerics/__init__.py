"""Small numerical tools that several rooms need."""
