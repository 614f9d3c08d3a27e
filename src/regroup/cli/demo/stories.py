"""All stories, in the order in which they are told."""

from collections.abc import Sequence

from regroup.cli.demo.budget_stories import after_start, backoff, budget
from regroup.cli.demo.group_stories import only_the_pod, recreate_group
from regroup.cli.demo.instance_stories import components, one_instance
from regroup.cli.demo.story import Story

STORIES: Sequence[Story] = (
    Story(name="recreate", title="RecreateGroupOnPodRestart: the whole group, and only that group", play=recreate_group),
    Story(name="none", title="None: only the failed pod", play=only_the_pod),
    Story(
        name="after-start",
        title="RecreateGroupAfterStart: not while a pod of the group is pending",
        play=after_start,
        simulated=True,
        holds_back=True,
    ),
    Story(name="budget", title="maxGroupRestarts: a budget, its end, and the way back", play=budget),
    Story(name="backoff", title="restartBackoff: room between recreations", play=backoff),
    Story(
        name="instance",
        title="OMENative: an engine that starts over in a new pod",
        play=one_instance,
        namespace="qwen3-native",
        simulated=True,
    ),
    Story(
        name="components",
        title="OMENative: prefill, decode and router, each by its own policy",
        play=components,
        namespace="llama-demo",
        simulated=True,
    ),
)
