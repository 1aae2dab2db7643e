"""The sandbox of what the agent runs: the kernel confines every command to what its session may see and
change.

| module | |
|---|---|
| `session_sandbox` | the sandbox of one session: the command line that confines a command |
| `available` | the sandbox that this machine has, found by trying |
| `bubblewrap`, `landlock` | the two sandboxes; `landlock_program` is started before a command |
| `mounts` | the mounts that both make for a command |
| `exposed_places` | the places that Landlock alone cannot protect, which a person is asked about |
| `call_filter` | the system calls that are refused in both |
| `granted_hosts`, `proxy_program` | hosts that a person has granted, and the way to them through a proxy |
| `known_places` | the protected places that were found in a directory, noted in the home |
| `views` | the parts of the file system that a command cannot see, may read, or may write |

The other tools import `session_sandbox` and `views`. The list of protected places is
`safety.protected_paths`, which the file tools use too: what is hidden from a command is hidden from them.
"""
