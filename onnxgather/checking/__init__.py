"""Checks: lanes run cases, and every answer is compared with the reference."""
