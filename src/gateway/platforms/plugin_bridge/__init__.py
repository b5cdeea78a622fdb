"""Chat platforms of plugins: their form of an adapter (`gateway.platforms.base`) and what runs it behind our face."""
