"""The store in SQLite: statements, tables, and one module for each kind of thing that is kept."""
