"""What an agent can do: each tool a module with its schema, its limits and its refusals."""
