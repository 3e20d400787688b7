"""An audit as text, as reports and as a page."""
