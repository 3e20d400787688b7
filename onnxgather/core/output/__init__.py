"""What pages, pictures and other documents share."""
