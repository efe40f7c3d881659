"""scikit-learn's API: validate, wire, keep. Nothing is computed here."""
