"""HTTP: health, the sessions API, runs, completions in OpenAI's form, live events, and the page.

No other package imports this one. A gateway gets from it a door (`gateway.serve`), and a platform called
`api`, whose people have shown the key.
"""
