"""Files: which may be touched, and how they are read, searched, changed and written."""
