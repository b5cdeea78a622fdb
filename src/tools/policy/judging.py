"""Judges the simple commands of a parsed command line one by one, and keeps the worst that was found."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import dropwhile

from tools.files.sensitive import names_secret
from tools.policy.denials import find_denial
from tools.policy.parser import ASSIGNMENT, parse
from tools.policy.paths import (
    CommandPlace,
    fill_known,
    find_read_problem,
    find_write_denial,
    find_write_problem,
    lies_inside,
    show_word,
    tidy,
)
from tools.policy.tables import (
    BLIND,
    HARMLESS_NAMES,
    INERT_FILE,
    MOVES,
    PROGRAMS,
    PYTHON_MODULES,
    REACHES,
    REACHES_ALWAYS,
    RISK_OF,
    SAME,
    SECRET_VARIABLE,
    SETS_UP,
    SHELLS,
    SMALL_CODE,
    SYSTEM_BINS,
    VERSIONS,
    WRAPPERS,
    Level,
    Program,
    Wrapper,
)
from tools.policy.words import UNKNOWN, ParseBudget, Redirect, Script, Unparsable, Word

DEEPEST_WRAP = 6
MOST_FOLDERS = 8
STEPS_OF_WORD = 8
#: How far to look for what is denied behind a command that is asked for anyway: depth, starts and words.
DEEPEST_LOOK, LOOK_AHEAD, LONGEST_LOOK = 2, 10, 64
ENVIRONMENTS = frozenset({".venv", "venv", "node_modules", ".git"})
READ_CONFIG = frozenset({"-l", "--list", "--get", "--get-all"})
VERSION_WORDS = frozenset({"--version", "-V", "version", "-version", "--help"})
STEPS = ("git", "cargo", "go", "npm", "yarn", "pnpm", "pip", "docker", "uv", "poetry")
DUPLICATE = re.compile(r"\d+-?|-")
WRITES = frozenset({">", ">>", ">|", "<>", "&>", "&>>", ">&"})
TEXTS = frozenset({"<<", "<<-", "<<<"})
HIDDEN_CODE = re.compile(r"\$\(|`|\[")


@dataclass(frozen=True, slots=True)
class CommandFinding:
    level: Level
    reason: str = ""


FINE = CommandFinding(Level.LOOK)


def find_worst(findings: Iterable[CommandFinding]) -> CommandFinding:
    return max(findings, key=lambda finding: finding.level, default=FINE)


def ask(reason: str) -> CommandFinding:
    return CommandFinding(Level.ASK, reason)


@dataclass(slots=True)
class Walk:
    """What is known on the way through a command line: where it may be, what it wrote, what it runs."""

    start: CommandPlace
    place: CommandPlace
    chain: int = -1
    wrote: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    sets_up: list[str] = field(default_factory=list)  # what changes files that other programs obey
    moves: list[str] = field(default_factory=list)  # what brings other versions of files into the folder
    reaches: list[str] = field(default_factory=list)  # what uses the network
    blind: list[str] = field(default_factory=list)  # what sees only the sandbox where it is meant to see the machine
    budget: ParseBudget = field(default_factory=ParseBudget)

    def branch(self) -> "Walk":
        """For a process of its own: where it goes does not move this one, what it writes and runs counts."""
        return replace(self, start=self.place, chain=-1)

    def change_folder(self, target: str) -> None:
        """Later commands of the chain are there; what follows the chain may be there or not."""
        at_home = target.startswith("~")
        moved = tuple(dict.fromkeys(tidy(posixpath.join("" if at_home else f, target)) for f in self.place.folders))
        self.start = replace(self.start, folders=tuple(dict.fromkeys(self.start.folders + moved)))
        if len(self.start.folders) > MOST_FOLDERS:
            raise Unparsable("the folders it may be in are too many to follow")
        self.place = replace(self.place, folders=moved)


def judge_source(source: str, walk: Walk, depth: int = 0) -> CommandFinding:
    """The worst finding of the command line; what cannot be parsed asks."""
    findings = [FINE]
    try:
        for finding in judge_script(parse(source, walk.budget), walk, depth):
            findings.append(finding)
    except Unparsable as problem:
        findings.append(ask(f"the command cannot be read for certain: {problem}"))
    return find_worst(findings)


def judge_script(script: Script, walk: Walk, depth: int) -> Iterator[CommandFinding]:
    if script.bombs:
        yield CommandFinding(Level.DENY, "it starts copies of itself without end")
    if script.functions:
        yield ask(f"it gives {script.functions[0]!r} a new meaning")
    for word in script.strays:
        yield judge_variables(word)
    for command in script.commands:
        if command.chain != walk.chain:
            walk.chain, walk.place = command.chain, walk.start
        for name, value in command.assignments:
            yield judge_assignment(name, value)
        for redirect in command.redirects:
            yield judge_redirect(redirect, walk)
        for word in command.words:
            yield judge_variables(word)
        if command.words:
            yield judge_words(command.words, walk, depth)
    # Writing a file and running the project in one go hides the code that runs.
    names = [posixpath.basename(path) for path in walk.wrote]
    risky = [name for path, name in zip(walk.wrote, names, strict=True) if not INERT_FILE.fullmatch(path)]
    if walk.ran and (risky or any(posixpath.basename(path) in names for path in walk.ran)):
        yield ask("it writes a file and runs code in one go")


def judge_variables(word: Word) -> CommandFinding:
    secret = next((name for name in word.names if SECRET_VARIABLE.search(name)), "")
    return ask(f"${secret} may hold a secret") if secret else FINE


def judge_assignment(name: str, value: Word) -> CommandFinding:
    if not HARMLESS_NAMES.fullmatch(name):
        return ask(f"it sets {name}, which can change what programs do")
    if HIDDEN_CODE.search(value.text):
        return ask(f"it puts code into {name}")
    return judge_variables(value)


def judge_redirect(redirect: Redirect, walk: Walk) -> CommandFinding:
    target, operator = redirect.target, redirect.operator
    if operator in TEXTS:
        return judge_variables(target)
    if operator in (">&", "<&") and DUPLICATE.fullmatch(target.text):
        return FINE
    if operator not in WRITES:
        problem = "where it reads from is not known beforehand" if operator == "<&" else ""
        problem = problem or find_read_problem(walk.place, target)
        return ask(problem) if problem else FINE
    if denial := find_write_denial(walk.place, target):
        return CommandFinding(Level.DENY, denial)
    problem = find_write_problem(walk.place, target)
    if operator == ">&":
        problem = problem or "bash expands the name after >& twice"
    if problem or target.globbed:
        return ask(problem or "what it writes is not known beforehand")
    walk.wrote.append(target.text)
    return FINE if target.text.startswith("/dev/") else CommandFinding(Level.WORK, f"it writes {target.text}")


# Words


def judge_words(words: list[Word], walk: Walk, depth: int) -> CommandFinding:
    """One command by its words; `depth` counts the wrappers around it."""
    if depth > DEEPEST_WRAP:
        return ask("it is wrapped too deeply")
    walk.budget.spend(STEPS_OF_WORD * len(words) * len(walk.place.folders))
    head = words[0]
    if not head.known or not head.text:
        return ask("the name of the command is not known beforehand")
    folder, _, name = head.text.rpartition("/")
    if "/" in head.text and (folder or "/") not in SYSTEM_BINS:
        return judge_own_program(words, walk)
    name = SAME.get(name, name)
    if denial := find_denial(walk.place, name, words[1:]):
        return CommandFinding(Level.DENY, denial)
    return judge_known(name, words[1:], walk, depth)


def judge_known(name: str, rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    if any(word.text in SETS_UP.get(name, "").split() for word in rest):
        walk.sets_up.append(name)
    if name in REACHES_ALWAYS.split() or any(word.text in REACHES.get(name, "").split() for word in rest):
        walk.reaches.append(name)
    if name in BLIND.split():
        walk.blind.append(name)
    if name == "git" and rest and rest[0].text in MOVES.split():
        walk.moves.append(rest[0].text)
    if name in VERSIONS.split() and len(rest) == 1 and rest[0].text in VERSION_WORDS:
        return FINE
    if special := SPECIAL.get(name):
        return special(rest, walk, depth)
    if name in SHELLS:
        return judge_shell(rest, walk, depth)
    key, rest = join_step(name, rest)
    if wrapper := WRAPPERS.get(key):
        return judge_wrapped(key, wrapper, rest, walk, depth)
    if program := PROGRAMS.get(key):
        return judge_program(key, program, rest, walk)
    reason = RISK_OF.get(name, f"{key!r} is not known to be harmless")
    return find_worst([ask(reason), *find_inner_denials(rest, walk, depth)])


def join_step(name: str, rest: list[Word]) -> tuple[str, list[Word]]:
    """`git status` is looked up as one; the global options of git that change nothing are left out."""
    while name == "git" and rest and rest[0].text in ("--no-pager", "-P"):
        rest = rest[1:]
    if name == "git" and [word.text for word in rest[:2]] in (["stash", "list"], ["stash", "show"]):
        return f"git stash {rest[1].text}", rest[2:]
    if name == "git" and rest and rest[0].text == "tag" and (not rest[1:] or {"-l", "--list"} & {w.text for w in rest}):
        return "git tag -l", rest[1:]
    if name in STEPS and rest and rest[0].known:
        return f"{name} {rest[0].text}", rest[1:]
    texts = [word.text for word in rest]
    if name == "sed" and any(text.startswith("-i") for text in texts):
        return "sed -i", rest
    if name == "make" and {"-n", "--dry-run"} & set(texts):
        return "make -n", rest
    return name, rest


def find_inner_denials(words: list[Word], walk: Walk, depth: int) -> Iterator[CommandFinding]:
    """What is denied stays denied behind a program that runs its words as a command."""
    words = words[:LONGEST_LOOK] if depth <= DEEPEST_LOOK else []
    for at in range(min(len(words), LOOK_AHEAD)):
        name = posixpath.basename(words[at].text)
        if denial := find_denial(walk.place, name, words[at + 1 :]):
            yield CommandFinding(Level.DENY, denial)
        elif name in SHELLS or name in WRAPPERS or name == "eval":
            aside = Walk(walk.start, walk.place, budget=walk.budget)
            finding = judge_words(words[at:], aside, depth + 2)
            if finding.level is Level.DENY:
                yield finding


def judge_own_program(words: list[Word], walk: Walk) -> CommandFinding:
    """A program of the project, named by its path."""
    path = words[0].text
    name = posixpath.basename(path)
    if find_write_problem(walk.place, words[0]):
        return ask(f"{path} is a program outside of the working folder")
    if any(word.text in SETS_UP.get(name, "").split() for word in words[1:]):
        walk.sets_up.append(name)
    venv = re.search(r"(^|/)\.?venv/bin/[^/]+$", path) or "/node_modules/.bin/" in f"/{path}"
    if venv and (name in PROGRAMS or SAME.get(name, name) == "python"):
        return judge_known(SAME.get(name, name), words[1:], walk, DEEPEST_WRAP)
    if name in SHELLS or name in RISK_OF or venv:
        return ask(f"{path} is not known to be harmless")
    walk.ran.append(path)
    return judge_program(path, Program(Level.WORK, runs=True), words[1:], walk)


def judge_program(name: str, program: Program, rest: list[Word], walk: Walk) -> CommandFinding:
    """A known program: its options and words must be known-safe too."""
    plain = [word for word in rest if not is_option(word)]
    odd = next((word for word in rest if not is_expected(program, word)), None)
    if program.first and (not plain or not plain[0].known or not re.fullmatch(program.first, plain[0].text)):
        odd = odd or (plain[0] if plain else Word("nothing"))
    if odd:
        return ask(f"{name} with {show_word(odd)} is not known to be harmless")
    if program.paths and (problem := find_path_problem(program, plain, rest, walk.place)):
        return ask(problem)
    if program.runs:
        walk.ran += [name, *(word.text for word in plain)]
    if name in ("tee", "sed -i"):
        walk.wrote += [word.text for word in plain[program.skip :]]
    return CommandFinding(program.level, f"{name} changes files or runs the project" if program.level else "")


def is_option(word: Word) -> bool:
    return word.text.startswith("-") and word.text != "-"


def is_expected(program: Program, word: Word) -> bool:
    if program.forbidden and re.match(program.forbidden, word.text):
        return False
    given = word.text[2:].partition("=")[0] if word.text.startswith("--") else ""
    if given and any(name.startswith(given) or given.startswith(name) for name in program.long.split()):
        return False
    return re.fullmatch(program.options if is_option(word) else program.words, word.text, re.DOTALL) is not None


def find_path_problem(program: Program, plain: list[Word], rest: list[Word], place: CommandPlace) -> str:
    """Why the paths need a person; with an option that takes the pattern's place, every word is a path."""
    find = find_write_problem if program.level else find_read_problem
    replaced = any(re.match(r"-\w*[ef]|--(regexp|file|expression|files)", word.text) for word in rest)
    paths = plain if replaced else plain[program.skip :]
    inline = [replace(word, text=word.text.partition("=")[2]) for word in paths if "=" in word.text]
    options = [word for word in rest if is_option(word)] if program.values else []
    values = [replace(word, text=value) for word in options for value in split_option(word.text, program.level)]
    for word in [*paths, *values, *inline]:
        if word.text and word.text != "-" and (problem := find(place, word)):
            return problem
        if word.globbed and program.level and re.search(r"(^|/)\.+[*?\[]|^[*?\[\]./-]*$", word.text):
            return f"what {show_word(word)} stands for is not known beforehand"
    return ""


def split_option(text: str, level: Level) -> list[str]:
    """The parts of an option that can be a path."""
    if not re.search(r"[/~=.\0]", text):
        return []
    value = text.partition("=")[2]
    if text.startswith("--"):
        return [value or (text if UNKNOWN in text else "")]
    # Several short options in one word: the path may begin anywhere.
    late = re.fullmatch(r"-\w+?([/~.\0].*)", text) if level is Level.LOOK else None
    return [value, text[2:], late[1] if late else ""]


# Wrappers, shells and the few programs that need a look of their own


def judge_wrapped(name: str, wrapper: Wrapper, rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    at = 0
    while at < len(rest) and rest[at].text.startswith("-"):
        if name == "env" and rest[at].text == "-C" and len(rest) > at + 1:
            aside = walk.branch()
            aside.change_folder(rest[at + 1].text)
            aside.start = aside.place
            return find_worst([ask("env with -C is not followed"), *find_inner_denials(rest[at + 2 :], aside, depth)])
        if re.fullmatch(wrapper.values, rest[at].text):
            at += 1
        elif not re.fullmatch(wrapper.flags, rest[at].text):
            return find_worst(
                [ask(f"{name} with {show_word(rest[at])} is not followed"), *find_inner_denials(rest, walk, depth)]
            )
        at += 1
    findings = [CommandFinding(wrapper.level, f"{name} runs a command")]
    while name == "env" and at < len(rest) and (found := ASSIGNMENT.match(rest[at].text)):
        findings.append(judge_assignment(found[1], replace(rest[at], text=rest[at].text[found.end() :])))
        at += 1
    inner = rest[at + wrapper.skip :]
    if not inner and name == "env" and not rest:
        return FINE  # it shows the variables, which are clean behind the walls
    if not inner:
        return ask(RISK_OF.get(name, f"{name} has no command"))
    if inner[0].text == "cd":
        return ask(f"cd is not followed behind {name}")
    extra = [Word(UNKNOWN)] if wrapper.appends else []
    return find_worst([*findings, judge_words(inner + extra, walk.branch(), depth + 1)])


def judge_shell(rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    """A shell with code is judged by the code; with a file of the project it runs the project."""
    rest = list(dropwhile(lambda word: word.text in ("-e", "-u", "-x", "-ex", "-eu", "-eux"), rest))
    if rest and re.fullmatch(r"-[elux]*c", rest[0].text) and len(rest) > 1:
        return judge_text(rest[1], walk, depth)
    if not rest or not rest[0].known or rest[0].text.startswith("-"):
        return ask("it runs a shell on text that is not known beforehand")
    return judge_own_program([replace(rest[0], text=posixpath.join(".", rest[0].text)), *rest[1:]], walk)


def judge_text(word: Word, walk: Walk, depth: int) -> CommandFinding:
    if UNKNOWN in word.text:
        return ask("it runs code that is not known beforehand")
    return (
        judge_source(word.text, walk.branch(), depth + 1) if depth < DEEPEST_WRAP else ask("it is wrapped too deeply")
    )


def judge_eval(rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    text = " ".join(word.text for word in rest)
    return find_worst([ask("it runs text as a command"), judge_text(Word(text), walk, depth)])


def judge_find(rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    """`find` without actions reads; with `-exec` it does what the command does."""
    findings, kept, at = [], [], 0
    while at < len(rest):
        if rest[at].text not in ("-exec", "-execdir"):
            kept.append(rest[at])
            at += 1
            continue
        end = next((i for i in range(at, len(rest)) if rest[i].text in (";", "+")), len(rest))
        findings.append(
            judge_words(rest[at + 1 : end], walk.branch(), depth + 1) if end > at + 1 else ask("find has no command")
        )
        at = end + 1
    if any(finding.level is Level.WORK for finding in findings):
        findings.append(ask("it changes every file that is found"))
    if findings and any(names_secret(word.text, walk.place.secrets) for word in kept):
        findings.append(ask("it looks for files that may hold secrets"))
    # The words after a test such as -name are patterns; only what stands before the first test is a path.
    first = next((i for i, word in enumerate(kept) if word.text[:1] in ("-", "(", "!")), len(kept))
    paths = [problem for word in kept[:first] if (problem := find_read_problem(walk.place, word))]
    return find_worst(
        [*findings, *map(ask, paths), judge_program("find", replace(PROGRAMS["find"], paths=False), kept, walk)]
    )


def judge_python(rest: list[Word], walk: Walk, _depth: int) -> CommandFinding:
    rest = list(dropwhile(lambda word: re.fullmatch(r"-[uBOq]+", word.text), rest))
    if code := judge_code(rest, "-c"):
        return code
    if not rest or rest[0].text.startswith("-c") or rest[0].text == "-":
        return ask("it runs code given on the command line")
    if rest[0].text == "-m" and len(rest) > 1:
        program = PYTHON_MODULES.get(rest[1].text)
        module = show_word(rest[1])
        return (
            judge_program(module, program, rest[2:], walk)
            if program
            else ask(f"python -m {module} is not known to be harmless")
        )
    return judge_file_run("python", rest, walk)


def judge_code(rest: list[Word], option: str) -> CommandFinding | None:
    """Code on the command line that looks as if it only computed and printed; None: something else is to be judged."""
    if len(rest) != 2 or rest[0].text != option:
        return None
    small = rest[1].known and SMALL_CODE.fullmatch(rest[1].text)
    return FINE if small else ask("it runs code given on the command line")


def judge_node(rest: list[Word], walk: Walk, _depth: int) -> CommandFinding:
    if code := judge_code(rest, "-e") or judge_code(rest, "-p"):
        return code
    if rest and rest[0].text == "--test":
        return judge_program("node", Program(Level.WORK, runs=True), rest[1:], walk)
    return judge_file_run("node", rest, walk)


def judge_file_run(name: str, rest: list[Word], walk: Walk) -> CommandFinding:
    """An interpreter with a file of the project; the file's own options are free, its paths are not."""
    if not rest or not rest[0].known or rest[0].text.startswith("-") or not lies_inside(walk.place, rest[0].text):
        return ask(f"{name} runs something that is not a file of the working folder")
    return judge_program(name, Program(Level.WORK, runs=True), rest, walk)


def judge_cd(rest: list[Word], walk: Walk, _depth: int) -> CommandFinding:
    if not rest or (len(rest) == 1 and not rest[0].globbed and fill_known(rest[0]).startswith("~")):
        walk.change_folder(fill_known(rest[0]) if rest else "~")
        return ask("it changes to the home")
    if len(rest) != 1 or not rest[0].known or rest[0].text in ("", "-"):
        return ask("the folder it changes to is not known beforehand")
    if rest[0].text.startswith("-"):
        return ask("cd with options is not followed")
    problem = find_write_problem(walk.place, rest[0])
    walk.change_folder(rest[0].text)
    return ask(problem) if problem else FINE


def judge_source_file(rest: list[Word], walk: Walk, _depth: int) -> CommandFinding:
    """`source .venv/bin/activate` only sets variables; any other file may do anything to the shell."""
    known = len(rest) == 1 and rest[0].known and rest[0].text.endswith("/bin/activate")
    if known and not find_read_problem(walk.place, rest[0]):
        return FINE
    return ask(RISK_OF["source"])


def judge_pushd(rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    return find_worst([judge_cd(rest, walk, depth), ask(RISK_OF["pushd"])])


def judge_export(rest: list[Word], _walk: Walk, _depth: int) -> CommandFinding:
    found = [
        (match[1], replace(word, text=word.text[match.end() :]))
        for word in rest
        if (match := ASSIGNMENT.match(word.text))
    ]
    if not rest or len(found) != len(rest):
        return ask("it shows or changes settings that may hold secrets")
    return find_worst([CommandFinding(Level.WORK, "it changes settings"), *(judge_assignment(*pair) for pair in found)])


def judge_command_builtin(rest: list[Word], walk: Walk, depth: int) -> CommandFinding:
    if rest and rest[0].text in ("-v", "-V"):
        return FINE
    return judge_wrapped("command", WRAPPERS["command"], rest, walk, depth)


def judge_rm(rest: list[Word], walk: Walk, _depth: int) -> CommandFinding:
    """Removing a whole root, or all that a bare pattern finds, is asked for."""
    roots = {path for root in walk.place.roots for path in (root, ".")}
    for word in rest:
        if set(walk.place.resolve(word.text)) & (roots | set(walk.start.folders)):
            return ask("it removes the working folder itself")
        if posixpath.basename(word.text.rstrip("/")) in ENVIRONMENTS:
            walk.sets_up.append("rm")
            return ask("it removes a repository, or an environment with its programs")
    return judge_program("rm", PROGRAMS["rm"], rest, walk)


def judge_git(rest: list[Word], walk: Walk, _depth: int) -> CommandFinding:
    """`git -C folder` works like git in that folder; other settings on the command line can run programs."""
    if len(rest) > 2 and rest[0].text == "-C":
        if problem := find_write_problem(walk.place, rest[1]):
            return ask(problem)
        rest = rest[2:]
    key, after = join_step("git", rest)
    program = PROGRAMS.get(key)
    if key == "git config" and not READ_CONFIG & {word.text for word in after}:
        return ask("it changes the settings of git")
    if key == "git restore" and not any(word.text == "--staged" for word in after):
        return ask("it throws changes away")
    return judge_program(key, program, after, walk) if program else ask(f"{key!r} is not known to be harmless")


SPECIAL: dict[str, Callable[[list[Word], Walk, int], CommandFinding]] = {
    "eval": judge_eval,
    "find": judge_find,
    "python": judge_python,
    "node": judge_node,
    "cd": judge_cd,
    "pushd": judge_pushd,
    "source": judge_source_file,
    ".": judge_source_file,
    "export": judge_export,
    "command": judge_command_builtin,
    "rm": judge_rm,
    "git": judge_git,
}
