"""The run journal: what a person has seen of an answer, written down before they saw it.

`record` is the line, `writer` the one owner of a run and `run_file` the file in its hands, `reader` what
any process may read at any time, `replay` the way from a cursor onwards, `recovery` the pure way from a
journal to transcript rows, `markers` what is said of them, and `sessions` what a reader of a session
gets, healed on the way.

Files: `journal/<session id>/<run id>.jsonl`, 0600 in directories of 0700.
"""
