"""The process and its machine: files, processes, the event loop, the home directory, service managers. Only
this package knows operating systems: each difference between them has its branch here, and tests run each
branch."""
