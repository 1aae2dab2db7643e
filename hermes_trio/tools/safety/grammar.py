r"""The tree of a command line, by tree-sitter and its bash grammar. Pure.

The grammar is made for editors, and a shell reads some lines in another way. Where the two may differ,
`parsed` raises `UnreadableCommand`, as it does for a line that the grammar cannot read, or not soon: such a
line must not count as harmless. The differences that are known:

| the grammar | a shell |
|---|---|
| takes `\ `, a vertical tab or a carriage return for blanks | reads a word, which may begin with `#` |
| ends a here-document at an indented line | does so for `<<-` only |
| reads `$` as text in `$a-$b`, and as an expansion in `>$ a` | the opposite |
| ends some words too soon, as in `>&1}\;` | goes on with the word |
| drops `-` before a here-document | reads an operand |
| goes on with a redirection in the next line | reads a new command |
| reads backticks in `${…}` or a here-document as text, and two in a row as one mark | runs commands |
"""

from __future__ import annotations

import re
import time
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from .command_line import LONGEST, UnreadableCommand

LONGEST_PARSE = 1.0
"""CPU time for one line, in seconds. An ordinary line of 100 KB takes 0.1 s, and a few take minutes."""
COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})
"""The types of nodes that are one command."""

NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that no argument of a command has."""
# What the grammar may skip between two nodes: blanks, and the word `-` before a here-document.
_BLANKS = re.compile(rb"(?:[ \t\n]|\\\n)*")
_BLANKS_OF_LINE = re.compile(rb"(?:[ \t]|\\\n)*")
_BLANKS_BEFORE_TEXT = re.compile(rb"(?:[ \t]|\\\n)*(?:-[ \t]*)?")
_OF_ONE_LINE = COMMANDS | {"file_redirect", "herestring_redirect", "redirected_statement"}
_OF_ONE_WORD = {"concatenation", "simple_expansion"}
_JOINED = re.compile(rb"(?:\\\n)*")
_OF_WORDS = {"command", "declaration_command", "unset_command", "file_redirect", "herestring_redirect"}
_END_OF_WORD = re.compile(rb"(?:\\\n)*(?:[ \t\n;&|<>()`]|\Z)")
_FREE_TEXT = frozenset({"string", "heredoc_body", "expansion", "regex", "translated_string"})
"""Nodes whose children need not cover all of their text."""
_NEVER_EXPANDS = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_body"})
_HIDDEN_COMMAND = re.compile(rb"(?<!\\)(?:`|[$<>]\()")
_EXPANDS = re.compile(rb"[\w@*#?!({'\"$-]")
_EXPANDS_IN_QUOTES = re.compile(rb"[\w@*#?!({$-]")


@cache
def _bash() -> Language:
    return Language(tree_sitter_bash.language())


def parsed(text: str) -> Node:
    """Return the tree of a command line. Raises `UnreadableCommand`."""
    if len(text) > LONGEST:
        raise UnreadableCommand("it is too long")
    if "$\\\n" in text or NO_TEXT.search(text):
        raise UnreadableCommand("it continues a variable on the next line, or is no text")
    source, started = text.encode(), time.thread_time()
    try:
        tree = Parser(_bash()).parse(
            lambda at, _: source[at : at + 4096],
            progress_callback=lambda *_: time.thread_time() - started > LONGEST_PARSE,
        )
    except ValueError:
        raise UnreadableCommand("it takes too long to parse") from None
    if tree.root_node.has_error:
        raise UnreadableCommand("it is no complete command")
    _must_be_covered(tree.root_node, source)
    return tree.root_node


def _must_be_covered(root: Node, source: bytes) -> None:
    """Raise `UnreadableCommand` where the grammar may skip a text that a shell reads, or may read an
    expansion as plain text."""
    waiting = [(root, 0, len(source))]
    while waiting:
        node, at, end = waiting.pop()
        is_free, before = node.type in _FREE_TEXT, source[max(node.start_byte - 2, 0) : node.start_byte]
        if node.type == "comment" and (before == b"\\\n" or before[-1:] not in b" \t\n;&|()"):
            raise UnreadableCommand("it is not clear where a comment begins")
        for child in node.children:
            ends_word = _END_OF_WORD.match(source, child.end_byte)
            if node.type in _OF_WORDS and child.is_named and not ends_word:
                raise UnreadableCommand("it is not clear where a word ends")
            expands = _EXPANDS_IN_QUOTES if is_free else _EXPANDS
            is_dollar = child.type == "$" and node.type != "simple_expansion"
            if child.type == "``" or (is_dollar and expands.match(source, child.end_byte)):
                raise UnreadableCommand("it is not clear what a mark stands for")
            waiting.append((child, child.start_byte, child.end_byte))
        stretches = [(child.start_byte, child.end_byte, child.type) for child in node.children]
        for start, stop, kind in (*stretches, (end, end, "")) if node.children or node.is_named else ():
            if is_free or not node.children:
                if node.type not in _NEVER_EXPANDS and _HIDDEN_COMMAND.search(source, at, start):
                    raise UnreadableCommand("it is not clear which commands a text holds")
            else:
                blanks = _BLANKS_OF_LINE if node.type in _OF_ONE_LINE else _BLANKS
                if node.type in _OF_ONE_WORD:
                    blanks = _JOINED
                elif kind == "heredoc_redirect":
                    blanks = _BLANKS_BEFORE_TEXT
                if not blanks.fullmatch(source, at, start):
                    raise UnreadableCommand("a character stands where none can")
            at = stop
