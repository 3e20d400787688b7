"""Runs where this environment lacks the provider: workers, hosts, browsers."""
