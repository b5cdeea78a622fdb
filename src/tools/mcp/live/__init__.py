"""What speaks to servers, on the official SDK. Loaded with the first server that is called (`mcp_host.load_live`)."""
