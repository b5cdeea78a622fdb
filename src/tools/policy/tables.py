"""What the policy knows about programs, as data: which only read, which do ordinary work, which run others."""

import re
from dataclasses import dataclass, replace
from enum import IntEnum


class Level(IntEnum):
    """How far a command goes; a command line goes as far as its worst command."""

    LOOK = 0  # only looks
    WORK = 1  # ordinary work inside the folder
    ASK = 2
    DENY = 3


@dataclass(frozen=True, slots=True)
class Program:
    """A program (or `program subcommand`) and what it may be given; patterns match whole words."""

    level: Level = Level.LOOK
    options: str = r".*"  # words that begin with a dash
    words: str = r"[\s\S]*"  # the other words
    first: str = ""  # the first of the other words
    forbidden: str = ""  # found at the start of any word: ask
    long: str = ""  # long options that ask, in any shortened form
    paths: bool = True  # the words are paths, to be read or (WORK) written
    values: bool = True  # the values of options may be paths
    skip: int = 0  # so many first words are no paths
    runs: bool = False  # it runs code of the project


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that runs the rest of its words as a command."""

    level: Level = Level.LOOK
    flags: str = r"(?!)"  # options without a value
    values: str = r"(?!)"  # options whose value is the next word
    skip: int = 0  # words before the command
    appends: bool = False  # adds words that are not known


W = Level.WORK
NONE, NUMBER = r"(?!)", r"\d*"
TALKERS = "echo true false : sleep seq expr basename dirname whoami id groups uname nproc uptime arch tty pwd free"
TALKERS += " which type tput clear cal locale getconf tr"
READERS = "ls cat head tail wc stat tac rev nl fold paste join comm cmp diff od hexdump strings readlink realpath"
READERS += " md5sum sha1sum sha256sum sha512sum cksum du df column lsblk"
FIND_TESTS = (
    r"-(name|iname|path|ipath|wholename|regex|iregex|type|maxdepth|mindepth|mtime|mmin|ctime|newer|size|print|print0|not"
    r"|o|a|or|and|prune|empty|ls|perm|user|group|readable|writable|executable|quit|true|false|depth|xdev|mount|[HLP])"
)
#: Options with which git runs programs, writes files or leaves the repository.
GIT_LONG = "output ext-diff no-index open-files-in-pager exec upload-pack receive-pack textconv git-dir work-tree"
GIT_LONG_WORK = GIT_LONG + " template force discard-changes delete file strategy-option edit-description"
GIT_READS = "status diff log show blame shortlog describe rev-parse ls-files ls-tree rev-list merge-base whatchanged"
GIT_READS += " grep diff-tree name-rev count-objects show-ref"
GIT_WORK = "add mv stash switch init merge cherry-pick revert"
VERSIONS = "python node npm cargo rustc go git make cmake gcc g++ java ruby pip uv tsc docker ruff mypy pytest"
TEST_WORD = r"[^$`\[]*|\[|\]|\]\]"
TEST = Program(options=TEST_WORD, words=TEST_WORD, forbidden=r"-(v|R|eq|ne|lt|le|gt|ge)$", paths=False)
#: Scripts that most likely only print; one that wants to write would only fail where it runs.
SED_SCRIPT = r"(?![\s\S]*([;/}\d]w |\de ))[\s\S]*"
AWK_SCRIPT = r"(?![\s\S]*(system|getline|[|>@]|close\())[\s\S]+"
#: Code on the command line that most likely only computes and prints.
SMALL_CODE = re.compile(
    r"(?![\s\S]*(open\(|write|unlink|remove|rmtree|mkdir|rename|system|subprocess|popen|spawn|exec|eval|compile|socket"
    r"|urllib|request|http|fetch|fork|kill|require\(|__|shutil|pathlib|Path\())[\s\S]*",
    re.IGNORECASE,
)
CONTROL = Program(words=NUMBER, options=NONE, paths=False)

PROGRAMS: dict[str, Program] = {name: Program(paths=False) for name in TALKERS.split()}
PROGRAMS |= {name: Program() for name in READERS.split()}
PROGRAMS |= {name: Program(skip=1) for name in ("grep", "egrep", "fgrep")}
PROGRAMS |= {f"git {name}": Program(forbidden="-O", long=GIT_LONG) for name in GIT_READS.split()}
PROGRAMS |= {
    f"git {name}": Program(W, forbidden=r"-[fdO]$|drop$|clear$", long=GIT_LONG_WORK) for name in GIT_WORK.split()
}
PROGRAMS |= dict.fromkeys(("exit", "wait", "break", "continue"), CONTROL)
PROGRAMS |= {
    "test": replace(TEST, forbidden=r"-[vR]$"),
    "[": replace(TEST, forbidden=r"-[vR]$"),
    "[[": TEST,
    "printf": Program(options=r"(?!-v).*", paths=False),
    "cut": Program(values=False),
    "date": Program(options=r"-u|-R|-I\w*|--utc|--iso-8601(=\w+)?|--rfc-3339=\w+", words=r"\+.*", paths=False),
    "hostname": Program(options=r"-[fIs]", words=NONE, paths=False),
    "file": Program(options=r"-[biLz]+|--mime(-type|-encoding)?|--brief"),
    "sort": Program(options=r"-[bdfghiMnrRVuzc]+|-k[\d.,a-z]*|-t[^.]?|--(reverse|unique|numeric-sort)", values=False),
    "uniq": Program(options=r"-[cdDiu]+|--count", words=NONE),
    "tree": Program(options=r"-[adfhpsCDFLINP\d]+|--(dirsfirst|gitignore|noreport|du|prune)"),
    "ps": Program(options=r"-[AaefFlux]+|-[opC]|--sort=\S+", words=r"aux?|ax|[\d,]+|[a-z%,]{3,}", paths=False),
    "pgrep": Program(options=r"-[aflnoxu]+", paths=False),
    "ss": Program(options=r"-[tulnpa]+", words=NONE, paths=False),
    "jq": Program(options=r"-[cerSMCs]+", forbidden=r".*(env|ENV|input_filename|import|include)", skip=1),
    "rg": Program(
        options=r"-[acFhHilLnNopqsSUvwxABCgtTm\d]+|--(files|hidden|json|glob=\S+|type=\w+|count|line-number)", skip=1
    ),
    "fd": Program(options=r"-[aHIgitedsE]+|--(hidden|type|extension|glob|max-depth)(=\S+)?", skip=1),
    "find": Program(options=FIND_TESTS, paths=False),
    "sed": Program(options=r"-[nErsuz]+|-e|--(quiet|regexp-extended|expression=.*)", words=SED_SCRIPT, skip=1),
    **dict.fromkeys(("awk", "gawk", "mawk"), Program(options=r"-[Fv]\S*", first=AWK_SCRIPT, skip=1, values=False)),
    **dict.fromkeys(("env", "printenv"), Program(options=NONE, words=r"[A-Z_]+", paths=False)),
    **dict.fromkeys(("lsof", "netstat"), Program(options=r"-[a-zA-Z]+", words=r"[\w:]*", paths=False)),
    "unzip": Program(options=r"-[lZv]+", first=r".*\.\w+"),
    "zipinfo": Program(),
    "git config": Program(options=r"-l|--(list|get|get-all|local|show-origin)", words=r"[\w.-]+", paths=False),
    "git worktree": Program(options=NONE, words=r"list", paths=False),
    "git stash list": Program(),
    "git stash show": Program(),
    "git tag -l": Program(options=r"-l|--list|-n\d*|--sort=\S+", paths=False),
    "make -n": Program(options=r"-n|--dry-run|-s", words=r"[\w.-]+", paths=False),
    "git branch": Program(options=r"-[arv]+|--(list|show-current|all|remotes|merged|no-merged)", words=NONE),
    "git remote": Program(options=r"-v", words=NONE, paths=False),
    "git reflog": Program(options=r"-\d+|-n", words=r"\d+|show|HEAD"),
    "docker ps": Program(paths=False),
    "docker images": Program(paths=False),
    "docker logs": Program(paths=False),
    "pip list": Program(options=r"--(outdated|format=\w+)", words=NONE, paths=False),
    "pip show": Program(options=r"-f|--files", paths=False),
    "pip freeze": Program(options=NONE, words=NONE, paths=False),
    "npm ls": Program(options=r"--(all|depth=\d+)", paths=False),
}
#: Ordinary work: changes files inside the folder.
PROGRAMS |= {
    "git tag": Program(W, options=r"-a|-m|-l|--list", paths=False),
    "git checkout": Program(W, options=r"-b", words=r"[\w/-]+"),
    "git restore": Program(W, options=r"--staged", words=r"[\w./-]+"),
    "git reset": Program(W, options=r"-q|--(soft|mixed|quiet)", words=r"HEAD([~^]\d*)?|[\w./-]+"),
    "git rm": Program(W, options=r"--cached|-q|-r"),
    "git commit": Program(
        W, r"-[amqsv]+|--(all|amend|no-edit|message(=[\s\S]*)?|quiet|signoff|allow-empty)", paths=False, runs=True
    ),
    "mkdir": Program(W, options=r"-[pv]+|--parents"),
    "rmdir": Program(W, options=r"-[pv]+"),
    "touch": Program(W, options=r"-[acm]+"),
    "cp": Program(W, options=r"-[aprRvnuf]+|--(recursive|archive|verbose|no-clobber|update)"),
    "mv": Program(W, options=r"-[vnuf]+|--(verbose|no-clobber|update)"),
    "rm": Program(W, options=r"-[rRfvd]+|--(recursive|force|verbose|dir)|--"),
    "ln": Program(W, options=r"-[sfnrv]+"),
    "tee": Program(W, options=r"-a|--append"),
    "chmod": Program(W, options=r"-v", first=r"[ugoa]*[+-][rwx]+|0?[0-7]{3}"),
    "gzip": Program(W, options=r"-[dkv\d]+"),
    "gunzip": Program(W, options=r"-[kv]+"),
    "tar": Program(W, options=r"-[ctzjJvf]+", first=r".*[./].*", words=r"[\w./-]+"),
    "sed -i": Program(
        W,
        options=r"-i(\.bak)?|-E|-r|-n",
        first=r"(\d+(,\d+)?)?(s([/|#])[^/|#\n]*\4[^/|#\n]*\4[gI\d]*|d)",
        skip=1,
    ),
}
#: Ordinary work: runs what the project already holds.
PYTEST_LONG = "rootdir confcutdir config-file override-ini pyargs basetemp pastebin"
PYTEST = Program(W, forbidden=r"-(?!-)[a-zA-Z]*[pco]", long=PYTEST_LONG, runs=True)
BUILDER = Program(
    W,
    forbidden=r"-(exec|toolexec|wrapper|fplugin|specs|B|E|Xclang|load|vettool|MF.)|[A-Z_]+=|@|(un)?install|deploy|publish",
    long="eval config plugin exec toolexec vettool wrapper include-dir",
    runs=True,
)
LINTER_LONG = "config plugin plugins rulesdir resolve-plugins python-executable output-file parser globalSetup"
LINTER = Program(W, long=LINTER_LONG, runs=True)
BUILDERS = "make ninja gcc g++ cc clang clang++ tsc"
LINTERS = "ruff mypy black isort flake8 pylint pyright eslint prettier jest vitest gofmt rustfmt coverage shellcheck"
CARGO = "build test check clippy fmt bench doc run clean tree"
GO = "build test vet fmt list version"
PACKAGE_SCRIPTS = "run test start build lint t check typecheck format"
PROGRAMS |= dict.fromkeys(BUILDERS.split(), BUILDER) | dict.fromkeys(LINTERS.split(), LINTER)
PROGRAMS |= {f"cargo {name}": BUILDER for name in CARGO.split()} | {f"go {name}": BUILDER for name in GO.split()}
PROGRAMS |= {
    f"{manager} {name}": Program(
        W, r"--|--(watch|silent|coverage|bail|verbose|run)|-s", r"(?!.*(deploy|publish))[\w:./-]+", runs=True
    )
    for manager in ("npm", "yarn", "pnpm")
    for name in PACKAGE_SCRIPTS.split()
}
CMAKE = r"-[SBG]\S*|-D\w*(BUILD_TYPE|TESTING|EXPORT_COMPILE_COMMANDS)=\w+|--build|--parallel|-j\d*"
PROGRAMS |= {
    "pytest": PYTEST,
    "cmake": Program(W, options=CMAKE, runs=True),
    "ctest": Program(W, options=r"-j\d*|--output-on-failure|-V|-R|--test-dir", runs=True),
    "go run": Program(W, options=NONE, first=r"\./\S*|\.|\w+\.go", runs=True),
    "mvn": Program(W, options=r"-q|-B|-o", words=r"test|compile|package|verify|clean", runs=True),
    "dotnet": Program(W, options=r"-c|--no-restore", words=r"build|test|run|Debug|Release", runs=True),
}
PYTHON_MODULES = dict.fromkeys(("ruff", "mypy", "black", "isort", "flake8", "pylint", "coverage"), LINTER)
PYTHON_MODULES |= {"pytest": PYTEST, "unittest": Program(W, runs=True), "compileall": Program(W)}
PYTHON_MODULES |= {"json.tool": Program(options=r"--(indent=?\d*|sort-keys|compact)")}
PYTHON_MODULES |= {"py_compile": Program(W), "venv": Program(W, options=NONE)}
#: Names under which the same program is known.
SAME = {"python3": "python", "pip3": "pip", "gmake": "make", **{f"python3.{minor}": "python" for minor in range(8, 20)}}

WRAPPERS: dict[str, Wrapper] = {
    "time": Wrapper(flags=r"-p"),
    "nice": Wrapper(flags=r"-\d+|-n\d+", values=r"-n"),
    "nohup": Wrapper(W),
    "setsid": Wrapper(W, flags=r"-[fw]"),
    "timeout": Wrapper(flags=r"--foreground|--preserve-status|-[vk]\d+", values=r"-[ks]|--signal", skip=1),
    "stdbuf": Wrapper(flags=r"-[ioe][L\d]+"),
    "command": Wrapper(flags=r"-p"),
    "builtin": Wrapper(),
    "env": Wrapper(flags=r"-i", values=r"-u"),
    "xargs": Wrapper(flags=r"-0|-r|-t|-[nPL]\d+", values=r"-[nPL]", appends=True),
    "uv run": Wrapper(W),
    "poetry run": Wrapper(W),
}
#: What changes files that other programs obey (settings and hooks of git, programs of an environment): steps of a
#: program, or words that it is given.
INSTALLS = "install i ci add remove uninstall update upgrade sync link rebuild init"
SETS_UP = {
    "git": "remote config submodule branch push clone worktree lfs",
    "python": "pip ensurepip venv virtualenv pre_commit",
    "uv": f"{INSTALLS} pip venv tool",
}
INSTALLERS = "pip npm yarn pnpm bun poetry pipenv pdm bundle composer pre-commit husky lefthook"
SETS_UP |= dict.fromkeys(INSTALLERS.split(), INSTALLS)
#: What uses the network: programs, and steps of programs or words that they are given.
REACHES_ALWAYS = """curl wget aria2c ftp ssh scp sftp rsync mosh nc ncat netcat socat telnet ansible npx bunx pipx uvx
    apt apt-get yum dnf brew snap gem conda apk zypper docker podman kubectl helm"""
REACHES = {
    "git": "fetch pull push clone ls-remote submodule lfs",
    "go": "get install mod",
    "cargo": "install add update fetch publish search",
    **{name: words for name, words in SETS_UP.items() if name != "git"},
    **dict.fromkeys(
        ["pip", "npm", "yarn", "pnpm"], f"{INSTALLS} download view search publish audit outdated wheel index"
    ),
}
#: Steps of git that bring other versions of files into the folder.
MOVES = "switch checkout merge pull rebase stash cherry-pick revert reset restore am bisect"
#: Inside the sandbox these see its own processes and connections, or none, instead of the machine's.
BLIND = "ps pgrep top htop ss netstat lsof who w last docker podman systemctl journalctl service ip ifconfig"
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash"})
SYSTEM_BINS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"})
#: Why a person is asked about these; what is denied stays denied behind them.
RISKS = {
    "it acts as another user": "sudo doas su runuser pkexec",
    "it runs another command in a way that is not followed": """exec watch script busybox toybox chroot unshare nsenter
        parallel flock strace ltrace gdb expect tmux screen ionice chrt taskset entr systemd-run setarch coproc npx bunx
        pipx uvx""",
    "it reaches another machine": "ssh scp sftp rsync mosh nc ncat netcat socat telnet ansible",
    "it runs code given on the command line": """perl ruby php lua awk gawk mawk osascript tclsh deno bun ed vim vi ex
        emacs""",
    "it changes what later commands mean": """alias unalias trap set shopt enable hash declare local readonly typeset
        unset let read mapfile readarray bind complete ulimit umask pushd popd source .""",
    "it fetches from the network": "curl wget aria2c ftp",
    "it installs or removes software": """apt apt-get dpkg yum dnf rpm pacman brew snap pip npm yarn pnpm gem conda apk
        zypper""",
    "it changes the system": """systemctl service mount umount iptables ip6tables nft ufw sysctl modprobe insmod useradd
        usermod userdel passwd chpasswd visudo swapoff fdisk parted losetup ip ifconfig hostnamectl timedatectl""",
    "it plans commands for later": "crontab at batch",
    "it ends processes": "kill pkill killall skill fuser xkill",
    "it runs containers": "docker podman nerdctl lxc kubectl helm",
    "it shows settings that may hold secrets": "env printenv export history gpg pass security",
}
RISK_OF = {name: reason for reason, names in RISKS.items() for name in names.split()}
ENDERS = frozenset({"shutdown", "reboot", "halt", "poweroff"})
SYSTEMCTL_ENDERS = frozenset({"poweroff", "reboot", "halt", "kexec", "emergency", "rescue", "suspend", "hibernate"})
DISK_TOOLS = re.compile(
    r"mkfs(\..+)?|mke2fs|mkswap|wipefs|blkdiscard|shred|sgdisk|sfdisk|fdisk|parted|badblocks|cryptsetup"
)
#: Programs that write to the paths they are given, for what is denied in every mode.
PATH_WRITERS = frozenset(
    {"rm", "rmdir", "mv", "cp", "tee", "truncate", "install", "ln", "dd", "shred", "unlink", "chmod", "chown", "chgrp"}
    | {"touch", "sed", "rsync", "sqlite3"}
)
RECURSIVE_HARM = frozenset({"rm", "chmod", "chown", "chgrp", "shred"})
HARMLESS_NAMES = re.compile(
    r"(?!.*_proxy$|.*(key|token|secret|pass))[a-z_][a-z0-9_]*|LC_\w+|LANG|LANGUAGE|TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR"
    r"|CI|DEBUG|NODE_ENV|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|RUST_BACKTRACE|RUST_LOG|VERBOSE"
)
SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE)", re.IGNORECASE)
#: Files a redirection may write beside a run of the project's code: nothing runs them by itself.
INERT_FILE = re.compile(
    r"(?!.*(CMakeLists|requirements|constraints)).*\.(log|out|txt|csv|md)|/dev/(null|stdout|stderr)"
)
