"""Tokens that are recognised by their own shape: a prefix that their maker gave them, or a fixed form. Pure.

Rejected: to mask everything that is long and random. Ids of runs, commits and messages are so too, and a text
without them is useless. So each kind of token is a row here. A row begins with one letter, digit or class,
and fails after a bounded number of characters; all rows are one pattern, which is tried where a word begins.

The prefixes are those that the makers document, and that the public rules of gitleaks list.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from itertools import pairwise

from .secret_words import MASK

_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_RUN = r"[\w-]{8,}(?:\.[\w-]+)*"
_MIXED = r"(?=[\w.-]{0,60}?[0-9])[\w.=+/-]{18,}"
"""At least one digit tells a token from a name such as `hf_hub_download`."""
_HEX = "[0-9a-fA-F]{24,}"
_CLEAR = "[A-Za-z0-9]{28,}"
"""A run without a separator, which no name has."""

_PREFIXES = {
    _RUN: r"""
        sk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ xox[a-z]- xoxe\. xapp- [srw]k_live_ [srw]k_test_
        [srw]k_prod_ [srw]k_org_live_ whsec_ glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent-
        gloas- glsoat- glffct- GR1348941 GOCSPX- ya29\. syt_ sq0[a-z]{3}- CFPAT- dckr_oat_
        sm_[ap]at_
    """,
    r"[\w.-]{16,}": r"""
        AIza pypi-Ag SG\. 1//0 AGE-SECRET-KEY- AGE-PLUGIN-
    """,
    _MIXED: r"""
        hf_ api_org_ gsk_ npm_ csk- xai- fw_ r8_ pplx- tvly- nvapi- pcsk_ lin_api_ lin_oauth_ figd_
        figo_ ntn_ sbp_ sb_secret_ nfp_ nfo_ rnd_ rubygems_ CCIPAT_ e2b_ lsv2_[a-z]{2}_ glsa_ glc_
        dckr_pat_ NRAK- NRII- NRJS- NRRA- PMAK- tskey-[a-z]+- xkeysib- xsmtpsib-
        pscale_(?:tkn|pw|oauth)_ sntry[su]_ dapi dt0[a-z]01\. ATATT3 ATCTT3 ATBB HRKU- hv[sbr]\.
        dp\.(?:pt|st|ct|sa|scim|audit)\. fm[12]_ fo1_ fio-u- ops_eyJ sl[.](?:u[.])?[A-Za-z0-9_-]{80}
        duffel_(?:live|test)_ pnu_ pnb_ rdme_ tk-us- shippo_(?:live|test)_ tfp_ vc[pktiarc]_
        y[0-3]_[A-Za-z0-9]{20} AQVN jina_ napi_ mdb_sa_(?:sk|id)_ wandb_v1_ FLWSECK(?:_TEST)?-
        ico-[A-Za-z0-9]{14} secret_(?=[A-Za-z0-9]{36}) flb_ tgp_v1_ bb_live_ phx_ phc_ sgp_ dsapi-
        cio_
    """,
    _HEX: r"""
        do[oprt]_v1_ shp(?:at|ca|pa|ss)_ key- pul- bk[a-z]{2}_ sq[uap]_ sk_ fc- squ_ CLOJARS_
        access_token[$](?:production|sandbox)[$][a-z0-9]{16}[$] v1\.0-[0-9a-f]{24}-
    """,
    _CLEAR: r"""
        AKCp cmVmd 4b1d[A-Za-z0-9]{10} EZ[AT]K hf_ api_org_ oy2[a-z0-9]{15} p8e- cflt[A-Za-z0-9]{20}
        dG9rO CLOJARS_ npm_ oauth:(?=[a-z0-9]{30})
    """,
    _UUID: r"""
        pat-(?:na|eu|ap)[0-9]- (?:sdk|api|mob)- access-(?:sandbox|development|production)-
    """,
    "": r"""
        (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{8,} LTAI[A-Za-z0-9]{16,} rzp_(?:live|test)_[A-Za-z0-9]{14,}
        EAA[A-Za-z0-9_-]{40,}(?![/+=]) API-(?=[A-Z]{0,24}[0-9])[A-Z0-9]{25,}
        pa-(?=[A-Za-z_-]{0,42}[0-9])[A-Za-z0-9_-]{43}
        A3-[A-Z0-9]{6}-[A-Z0-9]{5,11}(?:-[A-Z0-9]{5,6}){3,4} sha256~[A-Za-z0-9_-]{40,}
        pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}
        pat\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9]{20,28}\.[A-Za-z0-9]{16,24}
        live_(?=[A-Za-z_-]{0,40}[0-9])(?=[a-z0-9_-]{0,40}[A-Z])[A-Za-z0-9_-]{38,}
        A[A]{19}[A-Za-z0-9%]{75,} t1\.[A-Za-z0-9_-]{20,400}={0,2}\.[A-Za-z0-9_-]{80,}={0,2}
        eyJrIjoi[A-Za-z0-9=+/_-]{40,} mfa\.[\w-]{60,} [MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}
        (?:AC|SK|pub)[0-9a-f]{32}(?![\w/+=])
    """,
}
"""Patterns of prefixes, in rows by what follows them."""
_OTHERS = (
    r"(?:[12]/[0-9]{13,20}(?:/[0-9]{13,20})?:[0-9a-f]{32})",  # Asana
    r"(?:[0-9a-f]{32}-(?:[0-9a-f]{8}-[0-9a-f]{8}|us[0-9]{1,2})(?![\w-]))",  # Mailgun, Mailchimp
    r"(?:[0-9]{12,18}\|[\w-]{24,40}(?![\w-]))",  # an app of Facebook
    r"(?:[\w.~-]{3}[0-9]Q~[\w.~-]{30,36})",  # Entra
    r"(?:[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,})",  # Terraform
    r"(?:[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)",  # MaxMind
)
_RANDOM = (
    r"(?<![\w/+=.-])[A-Za-z0-9/+]{40}(?![\w/+=-])",  # a secret key of AWS
    r"[5KL][1-9A-HJ-NP-Za-km-z]{50,51}(?![\w/+=-])",  # a key of Bitcoin
    r"key[A-Za-z0-9]{14}(?![\w/+=-])",  # Airtable
)


def _by_first_letter() -> str:
    """Return the rows as one pattern, grouped by their first letter, so that few are tried at a place."""
    rows: dict[str, list[str]] = defaultdict(list)
    for tail, prefixes in _PREFIXES.items():
        for prefix in prefixes.split():
            first = re.match(r"\[[^]]+\]|\(\?:[^)]*\)|\w", prefix)
            assert first is not None  # noqa: S101 - a mistake in the table
            rows[first[0]].append(prefix[first.end() :] + tail)
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in rows.items())


_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9])(?=[\w.~/:|$+-]{{10}})(?:{_by_first_letter()}|{'|'.join(_OTHERS)}|(?P<random>{'|'.join(_RANDOM)}))"
)
_JWT = re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}+(\.[\w-]{8,}+)?(?:\.[\w-]*+)*")
_MAPBOX = re.compile(r"(?<![A-Za-z0-9])sk\.eyJ[\w.-]{30,}")
_TELEGRAM = re.compile(r"(?<!\d)\d{6,12}:[\w-]{30,}")
_LONG_HEX = re.compile(r"[0-9a-fA-F]{32,}")
_HASH = re.compile(
    r"\$(?:apr1|1|5|6|7|y|gy|2[abxy]|argon2(?:id|i|d)|pbkdf2[a-z0-9-]{0,10}|scrypt)\$[\w./$=,+-]{20,}"
)
_ENCODED_KEY = re.compile(r"LS0tLS1CRUdJTi[\w+/=-]{20,}")


def masked_tokens(text: str) -> str:
    """Return the text with `***` in place of every token that is recognised by itself."""
    if len(text) < 10:
        return text
    if ":" in text:
        text = _TELEGRAM.sub(MASK, text)
    text = _TOKEN.sub(_token, text)
    if "eyJ" in text:
        text = _JWT.sub(lambda found: MASK if found[1] else found[0], _MAPBOX.sub(MASK, text))
    if "$" in text:
        text = _HASH.sub(MASK, text)
    if "LS0tLS1CRUdJTi" in text:
        text = _ENCODED_KEY.sub(_encoded_key, text)
    return text


def is_random(token: str) -> bool:
    """Return whether capital letters, small letters and digits alternate as in a generated secret. In a path
    or an identifier they stand in groups."""
    kinds = _kinds(token)
    return {"A", "a", "0"} <= set(kinds) and _changes(kinds) * 5 >= len(token) * 2


def is_generated(value: str) -> bool:
    """Return whether a value that a name introduces has the length and the letters of a generated one."""
    kinds = _kinds(value)
    is_mixed = set(kinds) in ({"a", "0"}, {"A", "0"}) and _changes(kinds) * 4 >= len(value)
    return len(value) >= 20 and (is_mixed or is_random(value) or _LONG_HEX.fullmatch(value) is not None)


def _kinds(token: str) -> list[str]:
    return ["A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else "/" for c in token]


def _changes(kinds: list[str]) -> int:
    return sum(one != other for one, other in pairwise(kinds))


def _token(found: re.Match[str]) -> str:
    return MASK if found["random"] is None or is_random(found[0]) else found[0]


def _encoded_key(found: re.Match[str]) -> str:
    """Mask a private key in base64, and keep a certificate."""
    try:
        head = base64.b64decode(found[0][:64])
    except (binascii.Error, ValueError):
        return MASK
    return MASK if b"PRIVATE" in head else found[0]
