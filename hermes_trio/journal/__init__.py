"""The run journals: every event of a run, written before a person sees it.

| module | content |
|---|---|
| `record` | one line of a journal |
| `reader` | reading a journal, from any process at any time |
| `run_file` | the open file of a run, used by its writer |
| `broadcast` | live events for subscribers |
| `replay` | events after a cursor |
| `writer` | the journals of a home, and the one writer of each run |
| `recovery` | pure functions from a journal to transcript rows |
| `cut_markers` | the transcript rows that describe a recovery |
| `session_reader` | a session with its transcript, healed from its journals |

Files: `journal/<session id>/<run id>.jsonl`, mode 0600 in directories of mode 0700.
"""
