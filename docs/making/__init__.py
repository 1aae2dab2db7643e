"""The makers of the pages: one module for each page, and the Markdown that they share."""
