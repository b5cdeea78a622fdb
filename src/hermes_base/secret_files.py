"""The default of `files.secrets`: what is taken for a secret by its name."""

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
