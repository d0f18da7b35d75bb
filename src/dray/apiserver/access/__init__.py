"""Authentication and authorization: certificates, tokens, roles, nodes."""
