"""The open home of a gateway, and the housekeeping that keeps it small."""
