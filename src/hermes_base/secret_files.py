"""What is taken for a secret by its name: files (the default of `files.secrets`), and settings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Names of files and folders that hold secrets; `!` in front makes an exception.
SECRET_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.keystore", "*.ppk", "id_rsa", "id_dsa", "id_ecdsa*"),
    *("id_ed25519*", "!*.pub", ".ssh", ".gnupg", ".password-store", "authorized_keys", ".aws", ".azure", ".kube"),
    *(".docker", ".gcloud", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".yarnrc.yml", ".pypirc"),
    *(".git-credentials", ".htpasswd", ".vault-token", ".terraformrc", "*.tfstate", "*.tfvars", "environ"),
    *("credential", "credentials", ".credential", ".credentials", "credentials.json", "credentials.toml"),
    *("credentials.y*ml", "service-account*.json", "service_account*.json", "secret", "secrets", "secret.json"),
    *("secrets.json", "secret.y*ml", "secrets.y*ml", "secret.toml", "secrets.toml", "secret.txt", "secrets.txt"),
    *(".?*_history", "shadow", "shadow-", "gshadow", "gshadow-", "sudoers", ".hermes", "web-token*"),
)
_SETTINGS = ("api_key", "token", "secret", "password")
#: What is sent to an MCP server, or given to its program: whatever its name is, but for headers that are about the form
#: of messages, with words that stand in many texts.
_SERVER = re.compile(
    r"mcp_servers\..+\.(?:env(?:ironment)?\.|headers\.(?!(?:accept[\w-]*|content-type|user-agent)\Z)).+",
    re.IGNORECASE | re.DOTALL,
)
#: An argument of a program that names a secret: what follows it, or stands behind the sign in it, is one.
_OPTION = re.compile(
    r"[\w.-]*(?:key|token|secret|passw(?:or)?d|pass|auth\w*|cookie|bearer|credentials?)"
    r"(?:(?P<sign>[=:])\s*(?P<value>.*))?",
    re.IGNORECASE | re.DOTALL,
)
HIDDEN = "…"


def names_secret(key: str) -> bool:
    """Whether a setting that others own is called like a secret; each entry of a list of secrets is one."""
    name = key.rpartition(".")[2].partition("[")[0]
    return name.lower().endswith(_SETTINGS) or _SERVER.fullmatch(key) is not None


def hide_arguments(words: Sequence[str]) -> list[str]:
    """The arguments of a program as they may be shown."""
    hidden = dict(_find_arguments(words))
    return [word.replace(hidden[at], HIDDEN) if hidden.get(at) else word for at, word in enumerate(words)]


def find_server_secrets(section: object) -> Iterator[tuple[str, str]]:
    """What of the section `mcp_servers` is secret beside whole values of `env` and `headers`: tokens behind the scheme
    of a header, arguments, and the secret of its login; each with its key."""
    servers = section.items() if isinstance(section, Mapping) else ()
    for name, entry in servers:
        given: Mapping[Any, Any] = entry if isinstance(entry, Mapping) else {}
        headers, app = given.get("headers"), given.get("oauth")
        if isinstance(app, Mapping) and app.get("client_secret"):
            yield f"mcp_servers.{name}.oauth.client_secret", str(app["client_secret"])
        for header, value in headers.items() if isinstance(headers, Mapping) else ():
            yield f"mcp_servers.{name}.headers.{header}, its token", str(value).strip().partition(" ")[2].strip()
        for part in ("command", "args"):  # some write both in one list
            words = given.get(part)
            for at, value in _find_arguments([str(word) for word in words] if isinstance(words, list) else ()):
                key = f"mcp_servers.{name}.{part}[{at}]"
                yield key, value
                yield f"{key}, its token", value.partition(" ")[2].strip()


def _find_arguments(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Which arguments are secrets, or hold one at their end."""
    is_named = False
    for at, word in enumerate(words):
        found = _OPTION.fullmatch(word)
        if found is not None and found["sign"]:
            yield at, found["value"]
        elif is_named and not word.startswith("-"):
            yield at, word
        is_named = found is not None and not found["sign"] and word.startswith("-")
