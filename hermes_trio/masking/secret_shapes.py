"""Secrets that are recognised by their shape, or by the header or address around them. Pure functions.

Every function takes linear time: each pattern either matches and consumes the characters, or fails after a
bounded number of them. A new pattern must do the same; the tests measure it.

Rejected: to mask everything that is long and random. Ids of runs, commits and messages are so too, and a text
without them is useless.
"""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise

from ..config.section import MASK

# --- tokens with a prefix ---

_RUN = r"[\w-]{8,}(?:\.[\w-]+)*"
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    rf"(?:sk-|gh[pousr]_|github_pat_|xox[a-z]-|xoxe\.|xapp-|[srw]k_(?:live|test|prod)_|whsec_){_RUN}"
    rf"|(?:gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-|GOCSPX-|ya29\.|syt_|sq0[a-z]{{3}}-){_RUN}"
    r"|(?:AIza|pypi-Ag|SG\.)[\w.-]{16,}|1//0[\w-]{20,}|AGE-(?:SECRET-KEY|PLUGIN)-[\w-]{16,}"
    r"|(?:hf_|api_org_|gsk_|npm_|csk-|xai-|fw_|r8_|pplx-|tvly-|nvapi-|pcsk_|lin_api_|figd_|ntn_|sbp_|nfp_|rnd_"
    r"|rubygems_|CCIPAT_|e2b_|lsv2_[a-z]{2}_|glsa_|glc_|dckr_pat_|NRAK-|PMAK-|CFPAT-|tskey-[a-z]+-|xkeysib-"
    r"|xsmtpsib-|rzp_(?:live|test)_|pscale_(?:tkn|pw|oauth)_|sntry[su]_|dapi|dt0c01\.|ATATT3|HRKU-|hvs\.|dp\.pt\."
    r"|FlyV1[ ]fm[12]_)(?=[\w.-]{0,60}?[0-9])[\w.=+/-]{18,}"
    r"|(?:do[oprt]_v1_|shp(?:at|ca|pa|ss)_|key-)[0-9a-fA-F]{24,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{8,}"
    r")"
)
_OTHERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\w/+=])EAA[A-Za-z0-9_-]{40,}(?![/+=])",  # Square, Facebook
        r"(?<![\w/+=])(?:AC|SK|pub)[0-9a-f]{32}(?![\w/+=])",  # Twilio, Datadog
        r"(?<![\w-])[0-9a-f]{32}-(?:[0-9a-f]{8}-[0-9a-f]{8}|us[0-9]{1,2})(?![\w-])",  # Mailgun, Mailchimp
        r"(?<!\d)\d{6,12}:[\w-]{30,}",  # a bot of Telegram
        r"(?<![\w.-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}|(?<!\w)mfa\.[\w-]{60,}",  # Discord
        r"(?<![\w.~-])[\w.~-]{3}8Q~[\w.~-]{30,36}",  # Entra
        r"(?<!\w)[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}|(?<!\w)pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}",
    )
)
_HOOKS = re.compile(
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{1,30}/|/webhookb2/)[\w/@.-]+"
)
_JWT = re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}+(\.[\w-]{8,}+)?(?:\.[\w-]*+)*")
_FORTY = re.compile(r"(?<![\w/+=.-])[A-Za-z0-9/+]{40}(?![\w/+=-])")

# --- keys in PEM form ---

_PEM = re.compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}[\w+/=\s\\:,.()|]*+"
    r"(?:-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})?"
)
_PEM_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_BODY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n\r\\ |")

# --- headers and addresses ---

_QUOTE = r"""\\{0,4}["'`]?"""
_AUTHORIZATION = re.compile(
    rf"(?i)((?<![a-z])authorization{_QUOTE}\s{{0,8}}[:=]\s{{0,8}}{_QUOTE})"
    r"""(?:(?:digest|oauth|hawk|mac|aws4-[\w-]{1,20})[ \t][^\n]+"""
    r"""|(?:[a-z][\w-]{0,40}[ \t]+)?+(?![<{$(]|[a-z][\w.]{0,40}[(\[]|[fbr]{1,2}["'])[^\s"'`,\\]+)"""
)
_COOKIE = re.compile(
    rf"(?i)((?<![a-z])(?:set-)?cookie{_QUOTE}\s{{0,8}}[:=]\s{{0,8}}{_QUOTE})"
    r"""[\w!#$%&*+.^|~-]{1,100}=[^\n"'`\\]*"""
)
_SCHEME = re.compile(r"(?i)(?<![a-z])((bearer|basic)[ \t]{1,8})([\w.~+/=-]{8,})")
_ADDRESS = re.compile(r"""://[^\s"'<>`\\|]+""")
_GO_DSN = re.compile(r"(?<![\w.-])([\w.-]{1,64}:)[^\s@/:]{1,128}(?=@(?:tcp|unix)\()")
_CURL_USER = re.compile(
    r"""(\bcurl\b[^\n]{0,200}?[ ](?:-u|--user|--proxy-user)[ =]?["']?[^\s:"']{1,64}:)([^\s"']+)"""
)
_NETRC = re.compile(r"(\blogin[ \t\n]{1,8}\S{1,100}[ \t\n]{1,8}password[ \t]{1,8})(\S+)")


def masked_shapes(text: str) -> str:
    """Return the text with `***` in place of everything that has the shape of a secret."""
    text = _without_key_ends(_PEM.sub(MASK, text))
    text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    text = _COOKIE.sub(rf"\1{MASK}", text)
    text = _ADDRESS.sub(_address, text)
    text = _PREFIXED.sub(MASK, text)
    for shape in _OTHERS:
        text = shape.sub(MASK, text)
    text = _HOOKS.sub(rf"\1{MASK}", text)
    text = _JWT.sub(lambda found: MASK if found[1] else found[0], text)
    text = _FORTY.sub(lambda found: MASK if is_random(found[0]) else found[0], text)
    text = _SCHEME.sub(_scheme, text)
    for shape in (_CURL_USER, _NETRC, _GO_DSN):
        text = shape.sub(rf"\1{MASK}", text)
    return text


def is_random(token: str) -> bool:
    """Return whether capital letters, small letters and digits alternate as in a generated secret. In a path
    or an identifier they stand in groups."""
    kinds = ["A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else "/" for c in token]
    changes = sum(one != other for one, other in pairwise(kinds))
    return {"A", "a", "0"} <= set(kinds) and changes * 5 >= len(token) * 2


def _without_key_ends(text: str) -> str:
    """Mask the lines of a private key whose beginning is not in the text."""
    kept: list[str] = []
    done = 0
    for found in _PEM_END.finditer(text):
        start = found.start()
        while start > done and text[start - 1] in _PEM_BODY:
            start -= 1
        kept += [text[done:start], MASK]
        done = found.end()
    return "".join(kept) + text[done:]


def _address(found: re.Match[str]) -> str:
    """Return an address without its name and password."""
    body = found[0][3:]
    host = re.split(r"[/?#]", body, maxsplit=1)[0]
    at = host.rfind("@")
    if at < 0 and ":" in host and not host.rpartition(":")[2].isdecimal():
        at = body.rfind("@")  # a password in which the slash was not escaped
    user = body[:at] if at >= 0 else ""
    # A name without a password is no secret, as in `git@`; a key without a password is one, as in the address
    # of a Sentry project.
    is_name = ":" not in user and len(user) < 16 and not (len(user) >= 8 and any(map(str.isdigit, user)))
    return found[0] if not user or is_name else f"://{MASK}{body[at:]}"


def _scheme(found: re.Match[str]) -> str:
    """Return `Bearer` or `Basic` with the credential masked. In prose a plain word follows, which is kept."""
    value = found[3]
    if found[2].casefold() == "bearer":
        is_secret = len(value) >= 24 or any(map(str.isdigit, value))
    else:
        try:
            is_secret = b":" in base64.b64decode(value[: len(value) // 4 * 4])
        except (binascii.Error, ValueError):
            is_secret = False
    return f"{found[1]}{MASK}" if is_secret else found[0]
