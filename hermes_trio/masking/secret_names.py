"""Secrets after the name of a secret: `password=`, `"api_key": `, `--token `, `<secret>`. Pure functions.

A name alone is not enough: prose, code and documentation mention tokens and passwords too. So the value is
examined: a word of a sentence, a call, a variable or a type is no secret. The time is linear, as in
`secret_shapes`: a value of more than `LONGEST_PLAIN` characters is a secret without further examination.
"""

from __future__ import annotations

import re

from ..config.section import MASK

LONGEST_PLAIN = 200
"""Characters up to which a value is examined; a longer one after such a name is masked."""
SHORTEST = 4

_NAMES = (
    r"token(?!s|iz|[_-]?(?:count|limit|type|ur[il]|file|path|name|len|expir|ttl|usage|budget|endpoint|index))"
    r"|secret(?!s\b|ary|[_-]?(?:name|file|path|ur[il]|ref)|s?manager)"
    r"|passw(?:or)?d(?![_-]?(?:file|path|stdin|reset|ur[il]|hint|length|policy|expir))|passphrase"
    r"|(?<![a-z])(?:pass|pwd|sig|auth)(?![a-z])"
    r"|(?:api|app|access|account|private|signing|encryption|shared|master|auth|license|client|consumer"
    r"|subscription|webhook|web|service|storage|ssh)[_. -]?key(?!s|board|[_-]?(?:id\b|file|path|name|length))"
    r"|credential(?!s?[_-]?(?:file|path|type))|signature|sharedaccess(?:key|signature)"
)
_NAMED = re.compile(
    rf"(?i)(?P<name>{_NAMES})[\w-]{{0,40}}"
    r"""(?P<close>\\{0,4}["'`]?\]?)[ \t]{0,8}(?P<sign>=>|:=|={1,3}|:)\s{0,8}(?P<open>\\{0,4}["']?)"""
)
_FLAG = re.compile(
    r"""(?i)(?<!\S)(--?(?:[a-z]+-){0,3}(?:password|passwd|passphrase|token|secret|api-?key|access-key)[ ]+"""
    r"""["']?)(?![-"'<$])([^\s"']{4,})"""
)
_ELEMENT = re.compile(rf"(?i)(<(?:[\w:.-]{{0,40}}?)(?:{_NAMES})[\w:.-]{{0,40}}>)[^<\s][^<\n]{{3,}}(?=</)")
_IN_A_WORD = r"""(?:[^\s"'`&,;)}\]<>\\]|[&,;](?![\w.-]{0,40}[=:]|\s|\Z|["')\]}]))"""
"""A character of a value. A comma or another separator ends the value if something else begins after it;
otherwise it is a part of a password."""
_WORD = re.compile(_IN_A_WORD + "{1,201}")
_TO_SPACE = re.compile(r"""[^\s"'`]+""")
_REST = re.compile(_IN_A_WORD + "*")
_ENV_LINE = re.compile(r"(?:^|\n)(?:\d{1,9}\|)?[ \t]{0,20}(?:export[ \t]{1,4})?[A-Za-z_][\w.-]{0,80}\Z")

_EXPRESSION = re.compile(
    r"[A-Za-z_$][\w.$?!-]*(?:\(|\[|\{|::|->)"
    r"|(?:self|this|cls|os|env|config|settings|args|opts|request|req|ctx|params|data|app"
    r"|user|response|res|result|state|props|event|client|session)(?:\.[A-Za-z_]\w*)+\Z"
)
_PLACE = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@-]+[/\\]?)+\Z|[a-z][a-z0-9+.-]*://\S+\Z")
_BLANK = re.compile(
    r"(?i)\*+|x{4,}|\.{3,}.*|[<$%{\[(].*|your[_ -].*|none|null|nil|true|false|undefined|str(?:ing)?"
    r"|int(?:eger)?|bool(?:ean)?|number|bytes|any|object|optional|required|missing|invalid|wrong|expired|unknown|empty"
    r"|unset|redacted|changed|needed|refused|bearer|basic|default|password|secret|token|self|this|void|float|text"
)
_PROSE_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*[.!?]?\Z")


def masked_names(text: str) -> str:
    """Return the text with `***` in place of the values after names of secrets."""
    kept: list[str] = []
    done = 0
    for found in _NAMED.finditer(text):
        if found.start() < done:
            continue
        start, end = found.end(), _end_of_value(text, found)
        if end - start >= SHORTEST:
            kept += [text[done:start], MASK]
            done = end
    text = "".join(kept) + text[done:]
    text = _FLAG.sub(lambda flag: flag[0] if _is_plain(flag[2], "") else f"{flag[1]}{MASK}", text)
    return _ELEMENT.sub(rf"\1{MASK}", text)


def _end_of_value(text: str, found: re.Match[str]) -> int:
    """Return the end of the secret that begins at the end of the match; its start if it is no secret."""
    start, quote = found.end(), found["open"]
    if quote.strip("\\"):
        return _end_of_quoted(text, start, quote)
    if quote or "\n" in text[found.end("sign") : start]:
        return start  # backslashes alone, or the name of a mapping
    if _is_env_line(text, found):
        word = _TO_SPACE.match(text, start)
        value = word[0].rstrip(",;)") if word else ""
        return start if _is_plain(value, found["name"]) else start + len(value)
    word = _WORD.match(text, start)
    if word is None:
        return start
    if len(word[0]) > LONGEST_PLAIN:
        return _REST.match(text, start).end()  # type: ignore[union-attr]
    if "]" in found["close"] and word[0].isidentifier():
        return start  # a variable that is assigned to a mapping
    is_spaced = found["sign"] == ":" or text[start - 1] == " "
    if _is_plain(word[0], found["name"]) or (is_spaced and _is_prose(text, word)):
        return start
    return word.end()


def _is_env_line(text: str, found: re.Match[str]) -> bool:
    """Return whether the match is in a line `NAME=value`, whose value may have every character but a
    space."""
    if found["sign"] != "=" or found["close"] or found.end() != found.end("sign"):
        return False
    return _ENV_LINE.search(text, max(0, found.start() - 110), found.end("sign") - 1) is not None


def _end_of_quoted(text: str, start: int, quote: str) -> int:
    """Return the place of the closing quotation mark; the end of the word if there is none on the line."""
    close = text.find(quote, start)
    while close > start and len(quote) == 1 and text[close - 1] == "\\":
        close = text.find(quote, close + 1)
    if close < 0 or "\n" in text[start:close]:
        word = _TO_SPACE.match(text, start)
        return word.end() if word else start
    value = text[start:close]
    return start if len(value) <= LONGEST_PLAIN and _BLANK.fullmatch(value) else close


def _is_plain(value: str, name: str) -> bool:
    """Return whether an unquoted value is a placeholder, an expression, a path or an address."""
    return len(value) <= LONGEST_PLAIN and bool(
        value.casefold().rstrip(".") == name.casefold()
        or _BLANK.fullmatch(value)
        or _EXPRESSION.match(value)
        or (_PLACE.match(value) and not re.search(r"[+=]", value))
    )


def _is_prose(text: str, word: re.Match[str]) -> bool:
    """Return whether the value is a word of a sentence that continues."""
    if not _PROSE_WORD.match(word[0]):
        return False
    follows = text[word.end() : word.end() + 3]
    return len(follows) > 1 and follows[0] in " ,;)" and follows[1] not in "#\n\r&|"
