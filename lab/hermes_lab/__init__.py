"""A model server on this machine for tests and benches: it judges requests strictly and answers by plan or script."""
