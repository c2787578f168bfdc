"""Am I protected? The verdict and everything that it is made of."""
