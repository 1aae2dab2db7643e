"""Routes below `/v1/`: completions in OpenAI's form, and runs."""
