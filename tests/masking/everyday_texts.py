# ruff: noqa: E501 - a table of texts as they come
"""Texts without a secret, although some look like one."""

from __future__ import annotations

import base64
import hashlib
import random

from tests.masking.fake_secrets import AZURE

_chance = random.Random(20261120)  # noqa: S311 - a picture

PICTURE = base64.b64encode(bytes(_chance.randrange(256) for _ in range(60_000))).decode()
INNOCENT = {
    "ids of ours": "session 20260520_120000_00000001, run 0b6b8f0c8f4e4c0a9d6f6f5c3b2a1908",
    "key of a session": "agent:main:telegram:dm:123456789",
    "git": "commit 3d367d0f2a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d (HEAD -> main)\n    a4a05dc A link that is lost",
    "digest": hashlib.sha256(b"x").hexdigest(),
    "integrity": f'"integrity": "sha512-{AZURE}", "resolved": "https://packages.example.org/x/-/x-1.0.0.tgz"',
    "UUID": "id 123e4567-e89b-12d3-a456-426614174000 of 123E4567-E89B-12D3-A456-426614174000",
    "picture": f"![x](data:image/png;base64,{PICTURE})",
    "picture in lines": "\n".join(PICTURE[at : at + 76] for at in range(0, len(PICTURE), 76)),
    "counts": "input_tokens: 1234, max_tokens=4096, token_count=17, tokens: 5, token_limit: 12345",
    "prose": "The token: a small piece of text. A password, they say, is a secret: something you know.",
    "more prose": "Tokens are counted, and every token costs. The secret of a good password is its length.",
    "advice": "telegram refused its token. Renew platforms.telegram.token in config.yaml, then restart.",
    "bearer": "basic things, bearer of news; bearer authentication is described in RFC 6750, basic training too",
    "keyboard": "the keyboard and the monkey; key agent:main:x; the API key is required",
    "at": "https://example.org/a@b and https://example.org:8080/a@b and kim@example.org",
    "git address": "git clone ssh://git@github.com/x/y.git; git+ssh://git@example.org/z",
    "time": "2026-05-20T12:00:00.000000Z took 12:34:56",
    "place": "/home/kim/.config/tokens/readme.md C:\\Users\\kim\\token.txt src/Components/Buttons/Primary2/index",
    "secret's place": "password_file=/run/secrets/db; TOKEN_PATH=/run/token; credentials_file: ~/.aws/credentials",
    "address of tokens": "token_url: https://example.org/oauth/token, token_endpoint=https://example.org/t",
    "assigned": "origins[\"api_key\"] = variable; {\"authorization\": f\"Basic {pair}\"}",
    "documented": "send `Authorization: Bearer <key>`; `GET /login?token=`: the cookie; a secret: `x_token` is one",
    "code": "self.token = token\npassword = ask_for_it()\napi_key = os.environ['OPENAI_API_KEY']\n"
    "def login(user: str, password: str, token: Optional[str] = None) -> None:\n    connect(token=self.token)\n",
    "JavaScript": "const token = await getToken(); const {password} = req.body; if (token === undefined) return",
    "Go": "func Auth(token string, secret []byte) error { token := r.Header.Get(name) }",
    "types": "interface X { password: string; token?: string | null; secret: boolean }",
    "null": '{"token": null, "password": "", "secret": false, "api_key": "<your key>"}',
    "template": "password: ${DB_PASSWORD}\ntoken: {{ token }}\nAPI_KEY=$API_KEY\nsecret: <secret>",
    "tokenizer": "tokenizer: cl100k_base, tokenizer=gpt2, tokenized: yes",
    "packages": "sklearn, sk-image, hf_hub_download, npm_config_registry, pypi-publish, ghp_pages, npm run key-gen",
    "CSS": ".risk-assessment .task-switcher-container { --mask-size: 10px }",
    "docker": "docker run -u 1000:1000 -p 8080:80 --user 33:33 image",
    "trace": 'File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n    raise JSONDecodeError(x)',
    "certificate": f"-----BEGIN CERTIFICATE-----\n{PICTURE[:640]}\n-----END CERTIFICATE-----",
    "public key": f"-----BEGIN PUBLIC KEY-----\n{PICTURE[:128]}\n-----END PUBLIC KEY-----",
    "known host": "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
    "cookies": "The cookie: is it stale? Cookies are set by the page; a cookie banner",
    "authorize": "authorization is required; Authorization header is missing",
    "table": "| token | meaning |\n|---|---|\n| secret | hidden |",
    "SQL": "SELECT password, token FROM users WHERE secret IS NULL",
    "help": "  --token TEXT  Token of the bot.\n  --password-stdin  Read it from standard input",
}  # fmt: skip
