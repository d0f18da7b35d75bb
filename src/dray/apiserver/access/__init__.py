"""Who asks, and what they may do: certificates, tokens, roles, nodes."""
