"""The routes of the API of this gateway."""
