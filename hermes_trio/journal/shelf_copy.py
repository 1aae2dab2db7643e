"""Copying run journals from files to rows and back, with the same bytes."""

from __future__ import annotations

from ..base.errors import JournalError
from ..host.files.private_files import make_private_dir
from ..state.db.engine import Db
from .file_shelf import FileShelf
from .record import journal_path


def journals_to_rows(files: FileShelf, db: Db) -> int:
    """Store each journal file as one row, and return their number. Raises `JournalError`."""
    number = 0
    insert = "INSERT INTO journal (run_id, first_seq, session_id, lines, written_at) VALUES (?, 1, ?, ?, ?)"
    for session_id in files.session_ids():
        for run_id, written_at in files.runs(session_id).items():
            lines = journal_path(files.root, session_id, run_id).read_bytes()
            db.execute(insert, (run_id, session_id, lines, written_at))
            number += 1
    return number


def journals_to_files(db: Db, files: FileShelf) -> int:
    """Write the rows of each run to a new file, and return their number. Raises `JournalError`."""
    runs = db.execute(
        "SELECT DISTINCT session_id, run_id FROM journal ORDER BY session_id, run_id"
    ).fetchall()
    for session_id, run_id in runs:
        path = journal_path(files.root, session_id, run_id)
        rows = db.execute("SELECT lines FROM journal WHERE run_id = ? ORDER BY first_seq", (run_id,))
        try:
            make_private_dir(path.parent)
            with path.open("xb") as file:
                path.chmod(0o600)
                file.writelines(bytes(lines) for (lines,) in rows)
        except OSError as error:
            remedy = "Copy into a home without journals."
            raise JournalError(run_id, f"cannot be written ({error.strerror or error})", remedy) from error
    return len(runs)
