"""Turns, streams and sessions of the web, through real sockets."""
