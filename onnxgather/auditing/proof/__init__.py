"""What is proved of the indices of a model, and under which conditions."""
