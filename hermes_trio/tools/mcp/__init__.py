"""Tools of servers of the Model Context Protocol: programs that we start, and HTTP addresses.

    mcp_servers     the configured servers and their current tools
    mcp_server      one server: connect, stay connected, call its tools
    mcp_program     the connection to a server that we start as a program
    offered_tools   the tools of a server as tools of ours; pure

The library is imported only by `mcp_server` and `mcp_program`, and only if a server is configured: it takes
half a second to load.
"""
