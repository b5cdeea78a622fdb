"""What people read, as text: cut between signs, into parts that a platform takes, with blocks kept whole. Pure."""
