"""DxDispatch's programs, which are JSON files: reading, checking, running and writing them."""
