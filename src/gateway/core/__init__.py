"""Pure decisions: what becomes of a message, who may do what, what is shown and when."""
