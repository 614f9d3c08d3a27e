"""The command line ('Bad input and faults'): one line that says what is wrong and what to do, an exit code, no traceback."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.cli.errors import EXIT_CLUSTER, EXIT_FAILED, EXIT_USAGE, cluster_failure
from regroup.cli.main import COMMANDS, main
from regroup.cli.run import _failure
from regroup.wire import yamlish
from regroup.wire.errors import ConnectionFailed, api_error
from regroup.wire.kubeconfig import ClusterAccess

SERVER = "https://10.0.0.1:6443"


def regroup(*args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command as a person does, with a clean environment and no terminal."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd or "/nonexistent")} | (env or {})
    command = [sys.executable, "-m", "regroup.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=cwd, check=False)


def assert_told(result: subprocess.CompletedProcess[str], *, code: int, text: str) -> None:
    """The exit code, the text on standard error, nothing on standard output, no traceback, no colour."""
    assert result.returncode == code, result.stderr
    assert text in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "\x1b[" not in result.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["manifests", "--bogus"], "No such option"),
        (["manifests", "--only", "crds,bogus"], "bogus: choose from crds, namespace, rbac, config, webhooks, deployment"),
        (["manifests", "--namespaces", "a,B_c"], "'B_c' is no name of a namespace"),
        (["manifests", "--namespace", "x.y"], "'x.y' is no name of a namespace"),
        (["manifests", "--namespaces", ","], "names no namespace"),
        (["manifests", "--webhook-url", "http://a"], "'http://a' is no https URL"),
        (["manifests", "--ca-bundle", "/nonexistent/file"], "does not exist"),
        (["manifests", "--replicas", "0"], "0 is not in the range"),
        (["run", "--workers", "0"], "--workers 0: must be at least 1"),
        (["run", "--workers", "many"], "'many' is not a valid integer"),
        (["run", "--metrics-port", "70000"], "--metrics-port 70000: must be between 0 and 65535"),
        (["run", "--node-loss-grace", "-1"], "--node-loss-grace -1: must be 0 (never force) or more"),
        (["run", "--webhook-url", "https://["], "--webhook-url https://[: must be an https URL"),
        (["run", "--node-loss-grace", "nan"], "--node-loss-grace nan: must be 0 (never force) or more"),
        (["run", "--webhook-url", "https://a", "--no-webhooks"], "there is nothing to register with --no-webhooks"),
        (["run", "--webhook-url", "https://a", "--certificate-dir", "/tmp"], "give only one of the two"),
        (["run", "--log-format", "xml"], "'xml' is not one of"),
        (["explain", "demo"], "write KIND/NAME"),
        (["explain", "pod/demo"], "write KIND/NAME"),
        (["explain", "lws/"], "write KIND/NAME"),
    ],
)
def test_wrong_usage_names_the_value_and_the_rule(
    args: list[str], text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, before anything is contacted."""
    monkeypatch.setattr(sys, "argv", ["regroup", *args])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr()
    assert end.value.code == EXIT_USAGE
    assert text in " ".join(told.err.split())
    assert told.out == ""


@pytest.mark.parametrize("command", [["run"], ["explain", "lws/demo"]])
def test_no_kubeconfig_says_what_to_do(command: list[str], tmp_path: Path) -> None:
    """Without a cluster: the file that was looked for, and how to get one."""
    result = regroup(*command, cwd=tmp_path)
    assert_told(result, code=EXIT_CLUSTER, text="there is no kubeconfig")
    assert "regroup sandbox" in result.stderr


def kubeconfig(folder: Path, server: str) -> str:
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
    }
    file = folder / "config"
    file.write_text(yamlish.dump(config))
    return str(file)


@pytest.mark.parametrize("command", [["run", "--no-webhooks"], ["explain", "lws/demo"]])
def test_an_unreachable_server_is_named(command: list[str], tmp_path: Path) -> None:
    """Which server, in one line; credentials are never shown."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = regroup(*command, "--kubeconfig", kubeconfig(tmp_path, url), cwd=tmp_path)
    assert_told(result, code=EXIT_CLUSTER, text=f"cannot reach the API server at {url}")
    assert "secret-token" not in result.stderr


def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The wrong name, in one line."""
    result = regroup("explain", "lws/x", "--kubeconfig", kubeconfig(tmp_path, SERVER), "--context", "other", cwd=tmp_path)
    assert_told(result, code=EXIT_CLUSTER, text="other")


@pytest.mark.parametrize("name", ["run", "explain", "manifests"])
def test_help_has_examples(name: str) -> None:
    """`--help` shows how the command is used."""
    result = regroup(name, "--help")
    assert result.returncode == 0
    assert f"regroup {name}" in result.stdout.split("Examples:")[1]


def test_the_help_lists_every_command_and_the_version_is_said() -> None:
    """The front door."""
    listed = regroup("--help").stdout
    assert all(f"\n  {name} " in listed for name in COMMANDS)
    assert regroup("--version").stdout.startswith("regroup, version ")


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    """`regroup manifests | head -1`: no traceback when the pipe closes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "regroup.cli", "manifests"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == ""
    assert process.returncode == EXIT_FAILED


def test_manifests_can_be_applied_as_they_are_printed() -> None:
    """Standard output is YAML and nothing else."""
    result = regroup("manifests", "--namespaces", "a, b ,a", "--only", "rbac,crds")
    assert result.returncode == 0
    documents = yamlish.load_documents(result.stdout)
    assert documents[0]["kind"] == "CustomResourceDefinition", "in the order to apply, not in the order asked"
    assert [one["metadata"]["namespace"] for one in documents if one["metadata"]["name"] == "regroup-workloads"] == list("aabb")


@pytest.mark.parametrize(
    ("code", "says", "hint"),
    [
        (401, "does not accept these credentials", "--context"),
        (403, "refuses reading things: no right", "regroup manifests --only rbac"),
        (404, "reading things: no right", "installed"),
        (500, "reading things: no right (HTTP 500", ""),
    ],
)
def test_api_errors_name_server_deed_and_remedy(code: int, says: str, hint: str) -> None:
    """Each kind of refusal has its sentence."""
    failure = cluster_failure(api_error(code, status={"message": "no right"}), server=SERVER, doing="reading things")
    assert says in str(failure)
    assert SERVER in str(failure)
    assert hint in " ".join(failure.hints)
    assert failure.exit_code == EXIT_CLUSTER


@pytest.mark.parametrize(("kind", "hint"), [("pods", "kubectl get pods --all-namespaces"), ("nodes", "kubectl get nodes")])
def test_a_pod_or_node_that_is_not_there_is_no_question_of_installing(kind: str, hint: str) -> None:
    """`regroup fault` on a wrong name: the hint lists the right ones."""
    status = {"message": f'{kind} "x" not found', "details": {"name": "x", "kind": kind}}
    failure = cluster_failure(api_error(404, status=status), server=SERVER, doing="ordering the fault")
    assert [hint in line for line in failure.hints] == [True]


def test_a_lost_connection_names_the_server() -> None:
    """The cause is kept in the sentence."""
    failure = cluster_failure(ConnectionFailed("connection refused"), server=SERVER, doing="x")
    assert str(failure) == f"cannot reach the API server at {SERVER}: connection refused"


def test_what_no_other_address_helps_against_is_not_told_to_try_one() -> None:
    """A hint is what to do about it: another port for one that is taken, none where certificates cannot be made."""
    cluster = ClusterAccess(server=SERVER, source="a test")
    assert _failure(OSError(98, "address in use"), cluster).hints
    failed = _failure(OSError("certificates could not be judged: no memory"), cluster)
    assert str(failed) == "cannot serve: certificates could not be judged: no memory"
    assert not failed.hints
