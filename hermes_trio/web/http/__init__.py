"""The HTTP server: connections, authentication, errors, streams, and the description of the routes."""
