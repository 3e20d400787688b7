"""DxDispatch's programs, which are JSON files: read, checked, run and written."""
