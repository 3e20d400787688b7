"""Gathers that are taken out of models, as cases for lanes.

Only this wing sees two others: auditing and checking.
"""
