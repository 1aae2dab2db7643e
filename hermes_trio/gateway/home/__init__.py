"""The open home of a gateway, and what keeps it small."""
