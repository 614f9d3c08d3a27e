"""Versions of an API in Kubernetes' order. Pure."""


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2, v1, v1beta1, v1alpha1, and then whatever is no version, by name."""
    digits, _, rest = version.removeprefix("v").partition("beta") if "beta" in version else (version[1:], "", "")
    stage = 1 if "beta" in version else 0
    if "alpha" in version:
        digits, _, rest = version.removeprefix("v").partition("alpha")
        stage = 2
    if not version.startswith("v") or not digits.isdecimal() or (stage and not rest.isdecimal()):
        return (3, 0, 0, version)
    return (stage, -int(digits), -int(rest or 0), version)
