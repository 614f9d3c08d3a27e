"""What kubectl says without what differs from run to run: ages, times, versions, UIDs, addresses, names that were made up."""

import re

_RULES = [
    (re.compile(pattern), word)
    for pattern, word in (
        (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
        (r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"((?:resourceVersion|Resource Version)\"?: +\"?)\d+", r"\1<version>"),
        (r"(?<=sandbox://)[0-9a-f]{64}|(?<=@sha256:)[0-9a-f]{64}", "<digest>"),
        (r"(?<=/)(LIVE|MERGED)-\d+", r"\1"),
        (r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", " <time>"),
        (r"(?<=-)[bcdf-hj-np-tv-z2-9]{5}(?=  +IPv4)", "<made>"),
        (r"https?://127\.0\.0\.1:\d+", "<server>"),
        (r"(?:10|127)(?:\.\d+){3}(?=[\s:,\"\]]|$)", "<ip>"),
        (r"(pod-template-hash[=:] ?\"?)[a-z0-9]+", r"\1<hash>"),
        (r"(controller-revision-hash[=:] ?\"?[a-z-]+-)[a-z0-9]+", r"\1<hash>"),
        # Deployments hash their templates in their own way: a ReplicaSet's name, and a pod's of it.
        (r"(?<=-)(?:[bcdf-hj-np-tv-z2-9]{8,10})(?:-[bcdf-hj-np-tv-z2-9]{5})?\b", "<made>"),
        (r"(?<=<made>)-[bcdf-hj-np-tv-z2-9]{5}\b", "-<pod>"),
        (r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)\b|\b(?:\d+d)?(?:\d+h)?(?:\d+m)\b(?=\s|\)|$)", "<age>"),
    )
]
_COUNTS = re.compile(r" \(x\d+ over <age>\)")
"""How often an event was told again until somebody looked."""
_GAPS = re.compile(r"(?<=\S)[ \t]{2,}")


def plain(text: str, *, namespace: str) -> str:
    """``text`` in words that are the same in every run. The width of columns follows the ages in them: gaps become two spaces."""
    for rule, word in _RULES:
        text = rule.sub(word, text)
    text = _COUNTS.sub("", text)
    return _GAPS.sub("  ", text.replace(namespace, "<ns>")).strip()
