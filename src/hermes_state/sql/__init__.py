"""The store in SQL: statements, tables, and one module for each kind of thing that is kept."""
