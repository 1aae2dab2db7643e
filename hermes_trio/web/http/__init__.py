"""The HTTP server: connections, who may come in, errors, the description of the routes."""
