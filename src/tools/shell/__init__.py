"""Commands: the shell of a task, the walls around it, and the keeper that starts and ends its processes."""
