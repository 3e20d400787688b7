"""Gathers taken out of models, as cases for lanes: the only part that reads two wings."""
