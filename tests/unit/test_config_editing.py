"""Changing rota.toml from a program: types, comments and order stay, and what is not allowed is never written."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.config import SECTIONS, load_settings
from rota.config.editing import file_to_edit, read_value, set_value, split_name, unset_value
from rota.config.template import render_template
from rota.errors import ConfigError

FILE = Path("rota.toml")
WRITTEN = """\
# ours
[log]   # what is told
level = "info"    # enough

# how much at once
[jobs]
worker_concurrency = 4  # cores
# poll_interval_ms = 1000
queues = { mail = 3, default = 1 }  # weights

# where
[database]
url = "postgresql://app@localhost/app"
"""


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ROTA_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def set_(name: str, text: str) -> None:
    section, key = split_name(name)
    set_value(FILE, section, key, read_value(section, key, text))


def get(name: str) -> Any:
    section, key = name.split(".")
    return getattr(getattr(load_settings(), section), key)


@pytest.mark.req("F02")
class TestSet:
    def test_a_known_key_keeps_its_comment_and_its_place(self) -> None:
        FILE.write_text(WRITTEN)
        set_("jobs.worker_concurrency", "8")
        assert FILE.read_text() == WRITTEN.replace("worker_concurrency = 4  # cores", "worker_concurrency = 8  # cores")

    def test_a_new_key_goes_below_the_line_that_shows_it(self) -> None:
        FILE.write_text(WRITTEN)
        set_("jobs.poll_interval_ms", "500")
        shown = "# poll_interval_ms = 1000\n"
        assert FILE.read_text() == WRITTEN.replace(shown, shown + "poll_interval_ms = 500\n")

    def test_or_below_the_last_key_of_its_section(self) -> None:
        FILE.write_text(WRITTEN)
        set_("log.format", "json")
        line = 'level = "info"    # enough\n'
        assert FILE.read_text() == WRITTEN.replace(line, line + 'format = "json"\n')

    def test_or_in_a_section_of_its_own(self) -> None:
        FILE.write_text(WRITTEN)
        set_("retention.runs_days", "90")
        assert FILE.read_text() == WRITTEN + "\n[retention]\nruns_days = 90\n"

    def test_into_no_file_at_all(self) -> None:
        set_("jobs.enabled", "true")
        assert FILE.read_text() == "[jobs]\nenabled = true\n"
        assert stat.S_IMODE(FILE.stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        ("name", "text", "written"),
        [
            ("jobs.enabled", "true", True),
            ("jobs.worker_concurrency", "8", 8),
            ("jobs.lease_duration_s", "60", 60),
            ("jobs.lease_duration_s", "60.5", 60.5),
            ("jobs.queues", "mail:3,default", {"mail": 3, "default": 1}),
            ("jobs.queues", '{"mail": 3}', {"mail": 3}),
            ("jobs.scheduler_cron", "off", "off"),
            ("log.level", "warning", "warning"),
            ("app.apps", "shop.mail,shop.bills", ["shop.mail", "shop.bills"]),
            ("app.apps", '["shop.mail"]', ["shop.mail"]),
            ("http.allow", "10.0.0.0/8,*.internal", ["10.0.0.0/8", "*.internal"]),
            ("postgres.data_dir", "/var/lib/rota", "/var/lib/rota"),
            ("mail.smtp_password", 'a"b\\c#d', 'a"b\\c#d'),
            (
                "housekeeping.rules",
                '[{"task": "expired_auth_cleanup", "table": "app.session", "where": "true"}]',
                [{"task": "expired_auth_cleanup", "table": "app.session", "where": "true"}],
            ),
        ],
    )
    def test_types(self, name: str, text: str, written: Any) -> None:
        section, key = name.split(".")
        for before in ("", f"[{section}]\n", render_template({})):
            FILE.write_text(before)
            set_(name, text)
            value = tomllib.loads(FILE.read_text())[section][key]
            assert (value, type(value)) == (written, type(written))
            load_settings()

    @pytest.mark.parametrize(
        "before",
        [
            'jobs = { worker_concurrency = 4 }  # all\n[log]\nlevel = "info"\n',
            'jobs.worker_concurrency = 4 # dotted\njobs.enabled = false\n[log]\nlevel = "info"\n',
            '[jobs]\nworker_concurrency = 4\n[log]\nlevel = "info"\n[jobs.queues]\nmail = 3 # three\n',
            '[jobs]\r\nworker_concurrency = 4 # dos\r\n[log]\r\nlevel = "info"\r\n',
            '[ jobs ]\nworker_concurrency=4#close\n\n\n[log]\nlevel = "info"',
        ],
    )
    def test_other_ways_to_write_the_same(self, before: str) -> None:
        FILE.write_bytes(before.encode())
        set_("jobs.worker_concurrency", "8")
        set_("jobs.poll_interval_ms", "500")
        set_("log.format", "json")
        content = tomllib.loads(before)
        content["jobs"] |= {"worker_concurrency": 8, "poll_interval_ms": 500}
        content["log"]["format"] = "json"
        after = FILE.read_bytes().decode()
        assert tomllib.loads(after) == content
        assert after.count("#") == before.count("#")
        assert after.count("\r\n") == (after.count("\n") if "\r\n" in before else 0)

    def test_a_list_over_several_lines_keeps_the_comments_of_what_stays(self) -> None:
        FILE.write_text('[app]\napps = [\n  "shop.mail",  # letters\n  "shop.bills",\n]\n')
        set_("app.apps", "shop.mail,shop.stock")
        assert tomllib.loads(FILE.read_text()) == {"app": {"apps": ["shop.mail", "shop.stock"]}}
        assert "# letters" in FILE.read_text()

    def test_text_with_what_looks_like_a_section_in_it_is_left_alone(self) -> None:
        before = '[housekeeping]\nrules = [{task = "expired_auth_cleanup", table = "t", where = """\n[jobs]\nx = 1\n"""}]\n'
        FILE.write_text(before)
        set_("jobs.enabled", "true")
        assert tomllib.loads(FILE.read_text()) == {**tomllib.loads(before), "jobs": {"enabled": True}}
        assert before in FILE.read_text()


@pytest.mark.req("F02")
class TestRefused:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("jobs.worker_concurency", "jobs.worker_concurency is not a setting .*; did you mean 'jobs.worker_concurrency'"),
            ("jbs.enabled", "jbs.enabled is not a setting .*; did you mean"),
            ("enabled", "enabled is not a setting"),
            ("jobs", "jobs is not a setting"),
            ("", "is not a setting"),
            ("jobs.", "is not a setting"),
        ],
    )
    def test_unknown_keys(self, name: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            set_(name, "1")
        assert not FILE.exists()

    @pytest.mark.parametrize("text", ["yes", "on", "1", "True", "TRUE", "", "no"])
    def test_booleans_are_true_or_false(self, text: str) -> None:
        with pytest.raises(ConfigError, match=f"jobs.enabled='{text}' is not allowed .*; allowed: true or false"):
            set_("jobs.enabled", text)
        assert not FILE.exists()

    @pytest.mark.req("F01")
    @pytest.mark.parametrize(
        ("name", "text", "allowed"),
        [
            ("jobs.worker_concurrency", "65", "a whole number from 1 to 64"),
            ("jobs.worker_concurrency", "0", "a whole number from 1 to 64"),
            ("jobs.worker_concurrency", "4.5", "a whole number from 1 to 64"),
            ("jobs.worker_concurrency", "true", "a whole number from 1 to 64"),
            ("jobs.poll_interval_ms", "99", "a whole number from 100 to 60000"),
            ("jobs.lease_duration_s", "3601", "a number from 30 to 3600"),
            ("jobs.lease_duration_s", "nan", "a number from 30 to 3600"),
            ("jobs.lease_duration_s", "inf", "a number from 30 to 3600"),
            ("jobs.max_retries_default", "-1", "a whole number from 0 to 100"),
            ("jobs.scheduler_tick_s", "4", "a number from 5 to 3600"),
            ("log.level", "loud", "one of debug, info, warning, error"),
            ("jobs.queues", "mail:0", "weight from 1 to 1000"),
            ("jobs.queues", '{"mail": ', "weight from 1 to 1000"),
            ("housekeeping.rules", "[" * 100_000, "a list of"),
            ("app.name", "\udcff", "what the application is called"),
        ],
    )
    def test_values_out_of_range_name_key_value_and_range(self, name: str, text: str, allowed: str) -> None:
        FILE.write_text(WRITTEN)
        with pytest.raises(ConfigError) as refused:
            set_(name, text)
        assert str(refused.value).startswith(f"{name}={text!r} is not allowed")
        assert allowed in str(refused.value)
        assert FILE.read_text() == WRITTEN

    def test_a_secret_is_not_told_again(self) -> None:
        with pytest.raises(ConfigError, match=r"^auth.secret=\*\*\* is not allowed"):
            set_("auth.secret", "short")

    def test_what_is_wrong_together_with_the_rest(self) -> None:
        FILE.write_text("[database]\npool_max = 5\n")
        with pytest.raises(ConfigError, match=r"pool_min=6 is more than database\.pool_max=5"):
            set_("database.pool_min", "6")
        assert FILE.read_text() == "[database]\npool_max = 5\n"

    def test_a_file_that_is_wrong_can_be_mended(self) -> None:
        FILE.write_text("[jobs]\nworker_concurrency = 65\nenabeld = true\n")
        set_("jobs.worker_concurrency", "8")
        set_("log.level", "debug")  # what was wrong before is no reason to refuse something else
        FILE.write_text(FILE.read_text().replace("enabeld", "enabled"))
        assert (get("jobs.worker_concurrency"), get("log.level")) == (8, "debug")

    def test_a_file_that_is_no_toml_is_left_alone(self) -> None:
        FILE.write_text("[jobs\n")
        with pytest.raises(ConfigError, match=r"rota.toml cannot be read"):
            set_("jobs.enabled", "true")
        assert FILE.read_text() == "[jobs\n"


@pytest.mark.req("F02")
def test_unset() -> None:
    FILE.write_text(WRITTEN)
    assert unset_value(FILE, "jobs", "worker_concurrency") is True
    assert FILE.read_text() == WRITTEN.replace("worker_concurrency = 4  # cores\n", "")
    assert unset_value(FILE, "jobs", "worker_concurrency") is False
    assert unset_value(Path("other.toml"), "jobs", "enabled") is False


@pytest.mark.req("F02")
class TestFile:
    def test_its_rights_stay_and_a_link_stays_a_link(self, tmp_path: Path) -> None:
        real = tmp_path / "etc"
        real.mkdir()
        (real / "real.toml").write_text("[jobs]\n")
        (real / "real.toml").chmod(0o640)
        FILE.symlink_to(real / "real.toml")
        set_("jobs.enabled", "true")
        assert FILE.is_symlink()
        assert (real / "real.toml").read_text() == "[jobs]\nenabled = true\n"
        assert stat.S_IMODE((real / "real.toml").stat().st_mode) == 0o640
        assert [each.name for each in real.iterdir()] == ["real.toml"]

    def test_the_file_that_is_named_is_the_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROTA_CONFIG", "elsewhere.toml")
        assert file_to_edit() == Path("elsewhere.toml")

    def test_many_at_once_lose_nothing(self) -> None:
        wanted = {
            "jobs.worker_concurrency": 8,
            "jobs.poll_interval_ms": 500,
            "jobs.max_retries_default": 7,
            "server.port": 9000,
            "auth.link_minutes": 5,
            "mail.smtp_port": 25,
            "http.per_host": 3,
            "retention.runs_days": 9,
        }
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda each: set_(each[0], str(each[1])), wanted.items()))
        assert {name: get(name) for name in wanted} == wanted


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "jobs.enabled": st.booleans(),
    "jobs.worker_concurrency": st.integers(1, 64),
    "jobs.poll_interval_ms": st.integers(100, 60000),
    "jobs.scheduler_tick_s": st.floats(5, 3600),
    "jobs.queues": st.dictionaries(st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,9}", fullmatch=True), st.integers(1, 1000), max_size=4),
    "mail.smtp_user": st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    "mail.smtp_password": st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    "http.deny": st.lists(st.from_regex(r"[A-Za-z0-9*-][A-Za-z0-9._*-]{0,9}", fullmatch=True), max_size=4),
    "log.level": st.sampled_from(["debug", "info", "warning", "error"]),
}


OTHER_FORMS = [
    "jobs.enabled = true # x\n",
    "jobs = { enabled = true } # x\n[http]\n",
    "[jobs] # x\n[jobs.queues]\nmail = 1 # y\n\n# z\n[http]\ndeny = [\n  'a', # b\n]\n",
    "[[housekeeping.rules]] # x\ntask = 'expired_auth_cleanup'\ntable = 't'\nwhere = 'true'\n",
]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.req("F02")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_set_is_read_back_and_comments_survive(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(["", WRITTEN, render_template({}), *OTHER_FORMS]))
    FILE.write_text(text)
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    wanted: dict[str, Any] = {}
    for name in names:
        wanted[name] = data.draw(VALUES[name])
        set_(name, as_text(wanted[name]))
    for name, value in wanted.items():
        assert get(name) == (tuple(value) if isinstance(value, list) else value)
    after = FILE.read_bytes().decode()
    kept = [line.partition("#")[2] for line in text.splitlines() if "#" in line and "mail = 1" not in line and "'a'" not in line]
    assert all(comment in after for comment in kept)  # all but those of what was itself taken away


@pytest.mark.req("F01")
def test_the_template_shows_every_key_with_its_default() -> None:
    text = render_template({})
    defaults = load_settings()
    FILE.write_text(text)
    assert load_settings() == defaults
    for section, fields in SECTIONS.items():
        for key, field in fields.items():
            [line] = [
                each.removeprefix("# ")
                for each in text.split(f"\n[{section}]")[1].split("\n[")[0].splitlines()
                if each.startswith(f"# {key} = ")
            ]
            default = field.get_default(call_default_factory=True)
            if default is not None or field.examples:
                FILE.write_text(f"[{section}]\n{line}\n")
                assert default is None or getattr(getattr(load_settings(), section), key) == default
