"""Takes a store from one place to another: a file, or a database by its address."""
