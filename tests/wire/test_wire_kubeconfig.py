"""Kubeconfigs: where they are looked for, what wins, what may be missing, and what is said about the rest."""

from pathlib import Path
from typing import Any

import pytest

from regroup.wire.kubeconfig import ClusterAccess, KubeconfigError, load_kubeconfig
from regroup.wire.yamlish import dump

V1 = "client.authentication.k8s.io/v1"


def write(file: Path, *, user: Any = None, cluster: Any = None, context: Any = None, **more: Any) -> Path:
    """A kubeconfig with one of each, changed as told."""
    content = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://example.test:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **(context or {})}}],
    }
    file.write_text(dump({**content, **more}))
    return file


def load(file: Path) -> ClusterAccess:
    return load_kubeconfig(str(file))


def test_where_kubeconfigs_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KUBECONFIG, else ~/.kube/config; when there is none, both are named."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(KubeconfigError, match=r"\.kube/config does not exist and KUBECONFIG is not set"):
        load_kubeconfig()
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", context={"namespace": "home"})
    assert load_kubeconfig().namespace == "home"

    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "other", context={"namespace": "other"})))
    assert load_kubeconfig().namespace == "other"


def test_of_two_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    """Whole entries win, not their fields; relative paths belong to the file that the entry stands in."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "t").write_text("x")
    first = write(tmp_path / "first", users=[], cluster={"server": "https://first.test"})
    second = write(folder / "second", user={"tokenFile": "t"}, cluster={"server": "https://second.test", "proxy-url": "http://p"})

    access = load_kubeconfig(f"{first}:{second}")

    assert (access.server, access.proxy_url) == ("https://first.test", "")
    assert access.identity.token_file == folder / "t"


def test_everything_that_may_be_said_is_read(tmp_path: Path) -> None:
    """The fields of a cluster, of a user and of an exec plugin."""
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}}
    plugin = {
        "apiVersion": V1,
        "command": "bin/login",
        "args": ["-v"],
        "env": [{"name": "A", "value": "b"}, {"name": "EMPTY"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "get it",
    }
    file = write(
        tmp_path / "config",
        cluster={
            "insecure-skip-tls-verify": True,
            "tls-server-name": "name",
            "proxy-url": "http://proxy:3128",
            "extensions": [{"name": "other", "extension": 1}, extension],
        },
        user={
            "exec": plugin,
            "as": "jane",
            "as-uid": "u1",
            "as-groups": ["g"],
            "as-user-extra": {"scope": ["x"]},
            "username": "me",
            "password": "word",
        },
    )

    access = load(file)

    assert (access.insecure, access.tls_server_name, access.proxy_url) == (True, "name", "http://proxy:3128")
    assert access.exec_config == {"audience": "me"}
    assert access.source == str(file)
    identity = access.identity
    assert (identity.username, identity.password) == ("me", "word")
    assert (identity.impersonate, identity.impersonate_uid, identity.impersonate_groups) == ("jane", "u1", ("g",))
    assert identity.impersonate_extra == {"scope": ("x",)}
    assert identity.exec is not None
    assert identity.exec.command == str(tmp_path / "bin" / "login"), "a path is relative to the kubeconfig"
    assert (identity.exec.args, identity.exec.env) == (("-v",), {"A": "b", "EMPTY": ""})
    assert (identity.exec.interactive_mode, identity.exec.provide_cluster_info) == ("Never", True)


@pytest.mark.parametrize("command", ["login", "/opt/login"])
def test_other_commands_of_plugins_stay_as_they_are(tmp_path: Path, command: str) -> None:
    """A bare name is looked for in PATH."""
    access = load(write(tmp_path / "config", user={"exec": {"apiVersion": V1, "command": command}}))

    assert access.identity.exec is not None
    assert access.identity.exec.command == command


def test_what_is_empty_is_as_good_as_missing(tmp_path: Path) -> None:
    """Keys with nothing behind them, as editors and tools leave them; no user at all; wrapped base64."""
    file = write(
        tmp_path / "config",
        user={"token": None, "as-groups": None, "exec": None},
        cluster={"proxy-url": None, "certificate-authority-data": "cGVt\nCg=="},
        context={"namespace": None},
        preferences=None,
    )
    access = load(file)
    assert (access.namespace, access.identity.token, access.ca) == ("default", "", b"pem\n")

    file = write(tmp_path / "anonymous", users=None, context={"user": None})
    assert load(file).identity.token == ""


def test_odd_entries_that_nobody_uses_do_no_harm(tmp_path: Path) -> None:
    """Files are shared by tools; only what the context names is looked into."""
    users = [{"name": "odd", "user": {"token": 5, "auth-provider": {}}}, {"name": "u", "user": {"token": "t"}}]

    assert load(write(tmp_path / "config", users=users)).identity.token == "t"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": {"token": 12345}}, r"user 'u': Expected `str`, got `int` - at `\$.token`"),
        ({"user": {"as-groups": "admins"}}, r"user 'u': Expected `array \| null`, got `str` - at `\$.as-groups`"),
        ({"user": {"as-user-extra": ["x"]}}, r"user 'u': Expected `object \| null`, got `array` - at `\$.as-user-extra`"),
        ({"user": {"as-groups": ["admins"]}}, "user 'u': as-uid, as-groups and as-user-extra need 'as'"),
        ({"user": {"exec": "login"}}, r"user 'u': Expected `object \| null`, got `str` - at `\$.exec`"),
        ({"user": {"exec": {"apiVersion": V1, "command": "x", "env": [{"value": "y"}]}}}, "missing required field `name`"),
        ({"user": {"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Maybe"}}}, "interactiveMode 'Maybe': one of"),
        ({"user": {"client-certificate-data": "cGVt"}}, "client-key is missing: a client certificate and its key go together"),
        ({"user": {"client-key-data": "cGVt"}}, "client-certificate is missing"),
        ({"cluster": {"server": "https://example.test:port"}}, "server 'https://example.test:port' is no http or https URL"),
        ({"cluster": {"server": "https://"}}, "server 'https://' is no http or https URL"),
        ({"cluster": {"server": ""}}, "server '' is no http or https URL"),
        ({"cluster": {"proxy-url": "socks5://p"}}, "proxy-url 'socks5://p' is no http or https URL"),
        ({"cluster": {"insecure-skip-tls-verify": "false"}}, r"cluster 'k': Expected `bool`, got `str`"),
        ({"context": {"cluster": "gone"}}, r"context 'c' wants cluster 'gone', which does not exist \(there: k\)"),
        ({"context": {"user": "gone"}}, r"context 'c' wants user 'gone', which does not exist \(there: u\)"),
        ({"current-context": ""}, r"no current-context is set: choose one with --context \(there: c\)"),
        ({"contexts": None}, r"context 'c', which does not exist \(there are no contexts\)"),
        ({"clusters": {}}, r"Expected `array \| null`, got `object` - at `\$.clusters`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """The file, the entry, the field and what to do; never a traceback for a wrong type."""
    file = write(tmp_path / "config", **change)

    with pytest.raises(KubeconfigError, match=message) as raised:
        load(file)

    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"- a list", b"just text", b"\xff\xfe\x00"])
def test_files_of_another_kind(tmp_path: Path, content: bytes) -> None:
    """A list, a text, bytes: the file is named."""
    file = tmp_path / "config"
    file.write_bytes(content)

    with pytest.raises(KubeconfigError, match=str(file)):
        load(file)
