"""Nine posteriors that are known, and what samplers and guides make of them."""
