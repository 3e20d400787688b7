"""A difference as something to send: the smallest case that shows it, in a folder that runs."""
