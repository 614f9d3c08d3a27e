"""Errors that end a command with a line for a person and an exit code for a script."""

from collections.abc import Sequence

from regroup.wire.errors import ApiError, ConnectionFailed, Forbidden, NotFound, Unauthorized, WireError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CLUSTER = 3
EXIT_INTERRUPTED = 130


class CommandFailed(Exception):
    """The command cannot go on. ``hints`` are what to do about it, a line each."""

    def __init__(self, message: str, *, hints: Sequence[str] = (), exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.hints = hints
        self.exit_code = exit_code


def cluster_failure(error: WireError, *, server: str, doing: str) -> CommandFailed:
    """The line for an API call that failed: which server, which right, and what to do."""
    match error:
        case ConnectionFailed():
            return CommandFailed(
                f"cannot reach the API server at {server}: {error}",
                hints=[
                    "is the cluster running, and is this the right --kubeconfig and --context?",
                    "no cluster at hand: `regroup sandbox`",
                ],
                exit_code=EXIT_CLUSTER,
            )
        case Unauthorized():
            return CommandFailed(
                f"the API server at {server} does not accept these credentials ({doing})",
                hints=["renew them, or choose another --context"],
                exit_code=EXIT_CLUSTER,
            )
        case Forbidden():
            return CommandFailed(
                f"the API server at {server} refuses {doing}: {error.message or error}",
                hints=["the rights that the operator needs: `regroup manifests --only rbac`"],
                exit_code=EXIT_CLUSTER,
            )
        case NotFound():
            return CommandFailed(
                f"{doing}: {error.message or 'not found'} (at {server})", hints=[_not_found(error)], exit_code=EXIT_CLUSTER
            )
        case ApiError():
            return CommandFailed(f"{doing}: {error.message or error} (HTTP {error.code} from {server})", exit_code=EXIT_CLUSTER)
        case _:
            return CommandFailed(f"{doing}: {error} (at {server})", exit_code=EXIT_CLUSTER)


def _not_found(error: NotFound) -> str:
    """What to do about it: a pod or a node has nothing to do with what is installed."""
    details = error.status.get("details")
    kind = details.get("kind") if isinstance(details, dict) else None
    if kind in {"pods", "nodes"}:
        return f"those that there are: kubectl get {kind}{' --all-namespaces' if kind == 'pods' else ''}"
    return "is Regroup installed there (`regroup manifests | kubectl apply --server-side -f -`), and is the name right?"
