"""The routes in the form of OpenAI."""
