"""What is taken for a secret by its name: files (the default of `files.secrets`), and settings."""

import re

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
#: What is sent to an MCP server, or given to its program, under such a name.
_SERVER = re.compile(
    r"mcp_servers\..+\.(env|headers)\.[^.]*(key|token|secret|password|auth\w*|cookie)", re.IGNORECASE | re.DOTALL
)


def names_secret(key: str) -> bool:
    """Whether a setting that others own is called like a secret; each entry of a list of secrets is one."""
    name = key.rpartition(".")[2].partition("[")[0]
    return name.lower().endswith(_SETTINGS) or _SERVER.fullmatch(key) is not None
