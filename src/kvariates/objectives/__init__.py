"""What is minimised: squared Euclidean, cosine, Mahalanobis and divergences."""
