"""Open sizes and bounds of elements, with their arithmetic."""
