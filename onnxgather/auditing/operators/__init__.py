"""The tables of operators: what they return, in which bounds, and at which indices."""
