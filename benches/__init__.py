"""What hermes costs, measured as CPU time, function calls and bytes against limits: `make bench`."""
