"""What a person looks at: pictures today, the one-file report later."""
