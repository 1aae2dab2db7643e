"""Tools that come from servers of the Model Context Protocol: programs that we start, and addresses.

    servers     which are configured, and what their tools are by now
    server      one of them: connected, kept connected, asked
    program     the way to one that we start
    offered     what it offers, as tools of ours; pure

Of the library only what stands in `server` and `program` is used, and only when a server is configured: it
takes half a second to load.
"""
