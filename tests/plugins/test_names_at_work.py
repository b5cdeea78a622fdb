"""The names of the host at work, each used as a plugin would."""

import json
import logging
from datetime import datetime, timedelta

import pytest

import cron.jobs as jobs
import hermes_cli
import model_tools
from agent.auxiliary_client import get_text_auxiliary_client
from agent.display import get_tool_emoji
from agent.redact import redact_sensitive_text
from agent.skill_utils import get_external_skills_dirs, iter_skill_index_files
from agent.title_generator import generate_title
from cron.schedule import find_next, read_schedule
from hermes_base.errors import ConfigProblem
from hermes_cli import config, logs
from hermes_cli.cmds import doctor
from hermes_cli.config.logs import keep_log, log_path
from hermes_cli.plugins_cmd import plugin_telling
from hermes_cli.runtime_provider import resolve_runtime_provider
from hermes_cli.skills_config import get_disabled_skills, save_disabled_skills
from hermes_constants import VERSION
from hermes_lab.server import LabServer
from hermes_state import SessionDB
from tools import memory_tool, skills_tool
from tools.path_security import validate_within_dir
from tools.send_message_tool import send_message_tool
from tools.skill_usage import load_usage
from tools.url_safety import is_safe_url

NOW = datetime(2026, 3, 6, 10, 30).astimezone()  # a Friday


# --- timed jobs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", {"kind": "once", "run_at": (NOW + timedelta(minutes=30)).isoformat(), "display": "once in 30m"}),
        ("every 1h", {"kind": "interval", "minutes": 60, "display": "every 60m"}),
        ("every 2 days", {"kind": "interval", "minutes": 2880, "display": "every 2880m"}),
        ("0 9 * * mon-fri", {"kind": "cron", "expr": "0 9 * * mon-fri", "display": "0 9 * * mon-fri"}),
    ],
)
def test_a_schedule_is_read(text, expected):
    assert read_schedule(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "soon", "every", "0m", "61 * * * *", "* * * * mond", "*/0 * * * *", "2026-13-01"])
def test_what_says_no_time_is_refused(text):
    with pytest.raises(ValueError, match="Write it like"):
        jobs.parse_schedule(text)


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("45 * * * *", (2026, 3, 6, 10, 45)),
        ("*/15 10 * * *", (2026, 3, 6, 10, 45)),
        ("30 10 * * *", (2026, 3, 7, 10, 30)),
        ("0 9 * * 1-5", (2026, 3, 9, 9, 0)),
        ("0 9 * * 7", (2026, 3, 8, 9, 0)),
        ("0 0 1 jan,jul *", (2026, 7, 1, 0, 0)),
        ("0 0 29 2 *", (2028, 2, 29, 0, 0)),
        ("0 0 13 * fri", (2026, 3, 13, 0, 0)),
        ("0 0 31 2 *", None),
    ],
)
def test_the_next_time_of_a_cron_expression(expression, due):
    expected = datetime(*due).astimezone() if due else None
    assert find_next(read_schedule(expression, NOW), NOW) == expected


def test_a_job_is_kept_and_changed(home):
    job = jobs.create_job("Water the plants", "every 1h", name="plants", skills=["garden"], origin={"chat_id": "c"})
    assert len(job["id"]) == 12
    assert (job["state"], job["skill"], job["repeat"]) == ("scheduled", "garden", {"times": None, "completed": 0})
    assert json.loads((home / "cron" / "jobs.json").read_text())["jobs"] == [job] == jobs.load_jobs()
    assert (home / "cron" / "jobs.json").stat().st_mode & 0o777 == 0o600
    assert jobs.get_job(job["id"]) == job
    changed = jobs.update_job(job["id"], {"schedule": "0 9 * * *", "id": "mine", "prompt": "Water them"})
    assert (changed["id"], changed["schedule"]["kind"], changed["prompt"]) == (job["id"], "cron", "Water them")
    assert datetime.fromisoformat(changed["next_run_at"]).hour == 9
    assert jobs.pause_job(job["id"], "holidays")["paused_reason"] == "holidays"
    assert jobs.list_jobs() == []
    assert [one["state"] for one in jobs.list_jobs(include_disabled=True)] == ["paused"]
    assert jobs.resume_job(job["id"])["paused_at"] is None
    assert [one["id"] for one in jobs.list_jobs()] == [job["id"]]
    assert jobs.remove_job(job["id"])
    assert not jobs.remove_job(job["id"])
    assert jobs.load_jobs() == []
    assert home / "cron" / "output" == jobs.OUTPUT_DIR


def test_a_job_that_is_not_there():
    assert jobs.get_job("x") is jobs.update_job("x", {}) is jobs.pause_job("x") is jobs.trigger_job("x") is None
    assert jobs.resume_job("x") is None


def test_whoever_triggers_a_job_hears_that_nothing_runs_it():
    job = jobs.create_job("Now", "2030-01-31T09:00")
    due = jobs.trigger_job(job["id"])
    assert "nothing here runs timed jobs yet" in due["note"]
    assert due["next_run_at"] < job["next_run_at"]
    assert "note" not in jobs.get_job(job["id"])


def test_a_file_that_is_damaged_is_not_written_over(home):
    (home / "cron").mkdir()
    (home / "cron" / "jobs.json").write_text('{"jobs": [')
    with pytest.raises(ConfigProblem, match="does not hold timed jobs"):
        jobs.create_job("x", "30m")
    assert (home / "cron" / "jobs.json").read_text() == '{"jobs": ['
    assert any("does not hold" in finding.what for finding in doctor.check_plugins(config.load_settings()))


def test_people_are_told_that_nothing_runs_jobs(write_plugin, enable):
    """H3"""
    write_plugin("timer", "from cron.jobs import create_job\ndef register(ctx): create_job('x', '30m')")
    write_plugin("other", "def register(ctx): pass")
    manager = enable("timer", "other")
    said = "timed jobs: kept and not used yet"
    assert said in plugin_telling.list_unused(manager._plugins["timer"])
    assert said not in plugin_telling.list_unused(manager._plugins["other"])


@pytest.mark.slow
def test_the_doctor_counts_jobs():
    jobs.create_job("x", "30m")
    told = [finding.what for finding in doctor.check_plugins(config.load_settings())]
    assert any("kept and not used yet" in what for what in told)


# --- texts, addresses, paths


def test_secrets_are_taken_out(home):
    """G6"""
    config.save_env_value("PROBE_API_KEY", "a-long-secret-value")
    assert redact_sensitive_text("key: a-long-secret-value!", force=True) == "key: [redacted PROBE_API_KEY]!"
    assert redact_sensitive_text(None) == ""


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://8.8.8.8/x", True),
        ("http://127.0.0.1:80", False),
        ("http://localhost/", False),
        ("http://2130706433/", False),
        ("http://169.254.169.254/latest", False),
        ("http://[::1]/", False),
        ("ftp://8.8.8.8/", False),
        ("file:///etc/passwd", False),
        ("http://8.8.8.8:99999/", False),
        ("no address", False),
        ("", False),
    ],
)
def test_addresses_are_judged(url, safe):
    """G8"""
    assert is_safe_url(url) is safe


def test_the_owner_opens_a_private_address(configure):
    """G8: the same setting as for pages; metadata stay closed."""
    configure(network={"private": ["127.0.0.0/8", "169.254.0.0/16"]})
    assert is_safe_url("http://127.0.0.1/")
    assert not is_safe_url("http://169.254.169.254/")


def test_a_path_stays_inside(tmp_path):
    """G7: also by a link."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    assert validate_within_dir(tmp_path / "in" / "new.txt", tmp_path / "in") is None
    for path in (tmp_path / "in" / ".." / "x", tmp_path / "in" / "link" / "x", tmp_path / "inside", "a\0b"):
        assert validate_within_dir(path, tmp_path / "in")


def test_small_facts(home):
    assert hermes_cli.__version__ == VERSION
    assert get_tool_emoji("memory", "?") == "🧠"
    assert get_tool_emoji("unknown", "?") == "?"
    assert memory_tool.get_memory_dir() == home / "memories"
    assert "error" in json.loads(send_message_tool({"action": "list"}))
    with SessionDB() as db:
        db.create_session("20260101_000000_abcdef", "telegram")
        db.append_message("20260101_000000_abcdef", "user", "6 times 7?")
        db.append_message("20260101_000000_abcdef", "tool", "42", "calc", None, "c1")
        assert db.get_messages("20260101_000000_abcdef")[1]["tool_call_id"] == "c1"
        assert len(db.list_sessions_rich("telegram", None, None, 5, 0)) == 1
        assert db.list_sessions_rich(cwd_prefix="/nowhere") == []


def test_notes_that_a_plugin_wrote_are_notes(home):
    folder = memory_tool.get_memory_dir()
    folder.mkdir()
    (folder / "MEMORY.md").write_text(memory_tool.ENTRY_DELIMITER.join(["likes tea", "has a cat"]) + "\n")
    told = model_tools.handle_function_call("memory", {"action": "add", "content": "lives in Kiel"})
    assert json.loads(told)["notes"] == "likes tea\nhas a cat\n- lives in Kiel"


def test_the_end_of_the_log(home):
    with keep_log(home):
        for number in range(3):
            logging.getLogger("gateway.probe").warning("line %d", number)
    path = home / "logs" / logs.LOG_FILES["gateway"]
    assert path == log_path(home)
    assert [json.loads(line)["message"] for line in logs._read_tail(path, 2)] == ["line 1", "line 2"]


def test_settings_are_saved_as_asked(home):
    (home / "config.yaml").write_text("display:\n  reasoning: true\nmine: {a: 1}\n")
    config.save_config({"mine": {"b": 2}}, merge_existing=True)
    assert config.read_raw_config() == {"display": {"reasoning": True}, "mine": {"a": 1, "b": 2}}
    config.save_config(config.load_config(), preserve_keys={"titles"})
    assert config.read_raw_config().keys() == {"display", "mine", "titles"}
    config.save_config({"display": {"markdown": True}}, strip_defaults=False)
    assert config.read_raw_config() == {"display": {"markdown": True}}


# --- skills


def make_skill(home, name, text):
    folder = home / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


def use_skills(**args):
    return json.loads(model_tools.handle_function_call("skills", args))


def test_front_matter():
    parsed = skills_tool._parse_frontmatter("---\nname: a\ntags: [x, y]\n---\n# Body\n")
    assert parsed == ({"name": "a", "tags": ["x", "y"]}, "# Body\n")
    assert skills_tool._parse_frontmatter("# No front\n---\n") == ({}, "# No front\n---\n")
    assert skills_tool._parse_frontmatter("---\nname: a\nsay: b: c\n---\nx") == ({"name": "a", "say": "b: c"}, "x")


def test_skills_are_found_turned_off_and_counted(home):
    make_skill(home, "bake", "---\ndescription: Bread.\ncategory: kitchen\n---\n")
    make_skill(home, "sew", "Needles.")
    make_skill(home, "mac", "---\nplatforms: [macos, windows]\n---\nElsewhere.")
    assert skills_tool._find_all_skills() == [
        {"name": "bake", "description": "Bread.", "category": "kitchen"},
        {"name": "sew", "description": "Needles.", "category": None},
    ]
    assert use_skills(action="list")["skills"] == {"bake": "Bread.", "sew": "Needles."}
    settings = config.load_config()
    save_disabled_skills(settings, {"sew"})
    save_disabled_skills(settings, {"bake"}, platform="telegram")
    assert get_disabled_skills(config.load_config()) == {"sew"}
    assert get_disabled_skills(config.load_config(), "telegram") == {"sew", "bake"}
    assert use_skills(action="list")["skills"] == {"bake": "Bread."}
    assert "turned off" in use_skills(action="read", name="sew")["error"]
    assert [one["name"] for one in skills_tool._find_all_skills(skip_disabled=True)] == ["bake", "sew"]
    off = skills_tool.list_disabled(config.load_settings().skills, "agent:main:telegram:dm:1")
    assert off == {"sew", "bake"}
    assert load_usage() == {}
    use_skills(action="read", name="bake")
    use_skills(action="read", name="bake")
    assert load_usage()["bake"]["use_count"] == 2
    assert next(iter_skill_index_files(skills_tool.SKILLS_DIR, "SKILL.md")) == home / "skills/bake/SKILL.md"
    assert get_external_skills_dirs() == []


def test_a_skill_asks_for_what_it_needs(home):
    make_skill(home, "post", "---\nrequired_environment_variables:\n  - {name: POST_TOKEN, prompt: Token?}\n---\nx")
    front = {"required_environment_variables": ["A_KEY", {"name": "B_KEY", "prompt": "B?"}, "no name"]}
    assert skills_tool._get_required_environment_variables(front, ["C_KEY", "A_KEY"]) == [
        {"name": "A_KEY", "prompt": "Value of A_KEY"},
        {"name": "B_KEY", "prompt": "B?"},
        {"name": "C_KEY", "prompt": "Value of C_KEY"},
    ]
    assert use_skills(action="read", name="post")["missing_variables"] == ["POST_TOKEN"]
    asked = []

    def capture(name, question, facts):
        asked.append((name, question, facts["skill_name"]))
        config.save_env_value_secure(name, "given-by-the-person")

    skills_tool.set_secret_capture_callback(capture)
    try:
        assert "missing_variables" not in use_skills(action="read", name="post")
    finally:
        skills_tool.set_secret_capture_callback(None)
        config.remove_env_value("POST_TOKEN")
    assert asked == [("POST_TOKEN", "Token?", "post")]


# --- the model


@pytest.fixture(scope="module")
def server():
    with LabServer() as running:
        yield running


@pytest.fixture
def model(server, configure):
    configure(model={"provider": "custom", "base_url": server.base_url, "default": "small"})


@pytest.mark.usefixtures("model")
def test_a_client_for_text():
    client, name = get_text_auxiliary_client("probe")
    assert name == "small"
    answer = client.chat.completions.create(model=name, messages=[{"role": "user", "content": "hello"}], max_tokens=50)
    assert answer.choices[0].message.content
    with pytest.raises(RuntimeError, match="whole"):
        client.chat.completions.create(messages=[], stream=True)


@pytest.mark.usefixtures("model")
def test_a_title_and_who_answers(server):
    assert generate_title("How do I bake bread?", "With flour.", timeout=20)
    found = resolve_runtime_provider()
    assert (found["provider"], found["model"], found["base_url"]) == ("custom", "small", server.base_url)
    with pytest.raises(RuntimeError, match="nobody-knows"):
        resolve_runtime_provider(requested="nobody-knows")


def test_without_a_usable_model(configure):
    configure(model={"provider": "nobody-knows"})
    assert get_text_auxiliary_client() == (None, None)
    assert generate_title("a", "b") is None
