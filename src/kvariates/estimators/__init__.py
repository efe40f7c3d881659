"""scikit-learn's interface: check the input, call the algorithm, store the result."""
