"""The pages in docs/ against the code: what a user can meet is named there, and what is shown there is true (design 2: docs)."""

import ast
import asyncio
import inspect
import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.operator.event_reasons import event_reasons, modules, tree_of, value_of
from tests.runtime.edges_plane import START, Log

import regroup
from regroup.cli import run
from regroup.kube.resources import CRDS, EVENTS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects.gang import Provider
from regroup.omenative.configuration import config
from regroup.omenative.configuration.chart import config_data
from regroup.omenative.keys import COMPONENTS, INFERENCE_SERVICES
from regroup.operator.config import OperatorConfig
from regroup.operator.manifests import ManifestOptions, manifests
from regroup.operator.start import Operator
from regroup.runtime.clock import LoopClock
from regroup.sandbox.cluster import Cluster
from regroup.wire import yamlish
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
KINDS = {one.kind: one for one in (LEADERWORKERSETS, INFERENCE_SERVICES)}


def section(page: str, title: str) -> str:
    """A page from the heading ``title`` to the next one of its level or above."""
    level = len(title.partition(" ")[0])
    rest = PAGES[page].split(f"\n{title}\n", 1)[1]
    return re.split(rf"\n#{{1,{level}}} ", rest, maxsplit=1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables in ``text``, heads and rules left out."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [
        row
        for place, row in enumerate(found)
        if not _is_rule(row) and not (place + 1 < len(found) and _is_rule(found[place + 1]))
    ]


def _is_rule(row: list[str]) -> bool:
    return set("".join(row)) <= set("- ")


def named(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page."""
    return [inspect.cleandoc(text) for text in re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)]


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every YAML block that is a whole object."""
    for page in PAGES:
        for text in blocks(page, "yaml"):
            yield from ((page, one) for one in yamlish.load_documents(text) if "apiVersion" in one)


# -- names


def test_every_flag_of_the_operator_is_told_with_its_default() -> None:
    """`regroup run`: each flag has a row, no row is of a flag that is gone, and numbers and choices are the code's."""
    found = {name: row for row in rows(section("operating.md", "## Flags and environment")) for name in named(row[0])}
    options = [one for one in run.command.params if isinstance(one, click.Option)]
    assert set(found) == {name for one in options for name in (*one.opts, *one.secondary_opts)}
    for option in options:
        default, told = option.default, found[option.opts[0]]
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert told[1] == f"{default:g}", option.name
        if isinstance(option.type, click.Choice):
            assert set(map(str, option.type.choices)) <= set(named(told[2])), option.name
            assert named(told[1]) == [str(default)], option.name


def test_every_event_is_told_once_and_none_that_is_not_there() -> None:
    """spec/leaderworkerset.md 7.6, spec/omenative.md 6.1: the tables have exactly the reasons that the code can tell."""
    told = [name for row in rows(section("operating.md", "## Events")) for name in named(row[0])]
    assert set(told) == event_reasons()
    assert all(row[1] in {"Normal", "Warning"} for row in rows(section("operating.md", "## Events")))


def own_keys() -> Iterator[str]:
    """Names under regroup.dev in the source: literals, sums with a prefix, and what modules hold."""
    for module in modules(regroup):
        held = [value for value in vars(module).values() if isinstance(value, str)]
        parts = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Constant | ast.BinOp)]
        for value in [*held, *(value_of(node, module) for node in parts)]:
            if isinstance(value, str) and re.fullmatch(r"[a-z.]*regroup\.dev/[A-Za-z-]+", value):
                yield value


def test_every_own_key_is_told() -> None:
    """spec/leaderworkerset.md 12.5: own keys are listed in the product's docs, and no key that is gone."""
    told = {name for row in rows(section("operating.md", "## Own keys")) for name in named(row[0])}
    found = set(own_keys())
    assert {"leaderworkerset.regroup.dev/Members", "sandbox.regroup.dev/down"} <= found, "the search finds what it is to find"
    assert found == {key for key in told if "regroup.dev/" in key}
    assert {"leaderworkerset.sigs.k8s.io/absorbed-restarts", "leaderworkerset.sigs.k8s.io/group-recreate-pending"} <= told
    used = {name for page in PAGES.values() for name in re.findall(r"[a-z.]*regroup\.dev/[A-Za-z-]+", page)}
    assert used <= found


# -- the ConfigMap


def entries(type: Any, path: str = "") -> Iterator[str]:
    """The paths that are read of an entry of the ConfigMap; the component is any."""
    for field in msgspec.structs.fields(type):
        inner = next((one for one in _parts(field.type) if isinstance(one, msgspec.StructMeta)), None)
        here = f"{path}{field.encode_name}"
        if inner is None:
            yield here
        else:
            many = any(getattr(one, "__origin__", None) is dict for one in _parts(field.type))
            yield from entries(inner, f"{here}.COMPONENT." if many else f"{here}.")


def _parts(type: Any) -> Iterator[Any]:
    yield type
    for one in getattr(type, "__args__", ()):
        yield from _parts(one)


def shipped(data: Any, path: str) -> Any:
    """The value at ``path``, which is the same for all components; None where there is none."""
    head, _, rest = path.partition(".")
    if head == "COMPONENT":
        values = [shipped(data[component], rest) for component in COMPONENTS]
        assert values == [values[0]] * len(values)
        return values[0]
    found = data.get(head)
    return shipped(found, rest) if rest and found is not None else found


@pytest.mark.parametrize(
    ("key", "type"),
    [(config.LIFECYCLE, config._Lifecycle), (config.DEPLOY, config._Deploy), (config.DISRUPTION, config._Budgets)],
)
def test_every_setting_is_told_with_what_is_shipped(key: str, type: Any) -> None:
    """spec/omenative.md 6.4: each entry that is read has a row, no row is of another, and shipped values are the manifests'."""
    found = {named(row[0])[0]: row for row in rows(section("omenative.md", f"### {key}"))}
    assert set(found) == set(entries(type))
    data = json.loads(config_data()[key])
    for path, row in found.items():
        value = shipped(data, path)
        assert [json.loads(text) for text in named(row[1])] == ([] if value is None else [value]), path
        assert row[3] in {"live", "start"}, path


def another(value: Any) -> Any:
    """A value of the same shape that nothing has by default."""
    if isinstance(value, dict):
        return {key: another(inner) for key, inner in value.items()}
    return {str: "7s", int: 7, float: 7.0}[type(value)]


@pytest.mark.parametrize("field", json.loads(config_data()[config.LIFECYCLE]))
def test_what_needs_a_new_start_is_told_so(field: str) -> None:
    """spec/omenative.md 6.4, column Read: another value changes what is read at the start, or what is live, as its row says."""
    plain = json.loads(config_data()[config.LIFECYCLE])
    before, after = ({config.LIFECYCLE: json.dumps(one)} for one in (plain, {**plain, field: another(plain[field])}))
    assert not config.live_settings(after).complaints
    changed = {
        "start": config.start_settings(before) != config.start_settings(after),
        "live": config.live_settings(before) != config.live_settings(after),
    }
    told = {row[3] for row in rows(section("omenative.md", "### lifecycle")) if named(row[0])[0].split(".")[0] == field}
    assert told == {read for read, moved in changed.items() if moved}


# -- links


def anchors(text: str) -> set[str]:
    """As GitHub makes them: lower case, words joined, other signs left out."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{name}" for name in PAGES)])
def test_links_lead_somewhere(page: str) -> None:
    """Files exist, and so do the headings that are named."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def test_every_page_is_in_the_index_and_in_the_readme() -> None:
    """A page that nobody finds is no page."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in PAGES.keys() - {"README.md"}:
        assert f"]({name})" in PAGES["README.md"], name
        assert f"](docs/{name})" in readme, name


# -- what needs an operator that runs


@asynccontextmanager
async def operated() -> AsyncIterator[tuple[Client, Operator]]:
    """A cluster with both APIs, and an operator that its API server asks about objects."""
    clock, operators = LoopClock(start=START), list[Operator]()

    async def call(url: str, body: bytes, ca: bytes | None, timeout: float) -> bytes:
        return await operators[0].admission.handle("/" + url.rsplit("/", 1)[1], body)

    cluster = Cluster(clock=clock, rng=random.Random(1), nodes=2, webhook_caller=call)
    world = asyncio.create_task(cluster.run())
    life: asyncio.Task[None] | None = None
    try:
        await cluster.ready.wait()
        client = cluster.client("kubectl")
        resources = {one.kind: one for one in (CRDS, NAMESPACES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
        for document in manifests(ManifestOptions(), only=["crds", "namespace", "webhooks"]):
            if document["kind"] in resources:
                await client.create(resources[document["kind"]], document)
        settings = OperatorConfig(
            host="127.0.0.1", metrics_port=None, webhook_port=0, scheduler_provider=Provider.KUBERNETES, config_namespace="none"
        )
        operators.append(Operator(cluster.client("op"), config=settings, clock=clock, rng=random.Random(1), log=Log()))
        life = asyncio.create_task(operators[0].run())
        async with asyncio.timeout(60):
            await operators[0].ready.wait()
        yield client, operators[0]
    finally:
        for task in (life, world):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, BaseExceptionGroup):
                    await task


async def create(client: Client, body: Mapping[str, Any]) -> None:
    """Create an object, and its namespace before."""
    namespace = body["metadata"].get("namespace", "default")
    if namespace != "default":
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await client.create(KINDS[body["kind"]], dict(body), namespace=namespace)


@pytest.mark.looptime
async def test_manifests_are_admitted() -> None:
    """Every whole object in the pages passes the schema and the rules of an operator that runs."""
    assert {one["kind"] for _, one in objects()} == set(KINDS)
    async with operated() as (client, _):
        for page, body in objects():
            try:
                await create(client, body)
            except Exception as error:
                raise AssertionError(f"{page}: {body['metadata']['name']}") from error


@pytest.mark.looptime
async def test_every_metric_is_told_with_its_labels() -> None:
    """design 4, Metrics; spec/leaderworkerset.md 7.7: each family has a row with type and labels, and no row is of another."""
    told = {named(row[0])[0]: (row[1], named(row[2])) for row in rows(section("operating.md", "## Metrics"))}
    async with operated() as (client, operator):
        service = next(one for _, one in objects() if one["kind"] == INFERENCE_SERVICES.kind)
        await create(client, service)
        await asyncio.sleep(30)
        operator.metrics.refresh()
        page = operator.metrics.render().decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    assert {name: kind for name, (kind, _) in told.items()} == {
        name: kind for name, kind in types.items() if not name.endswith("_created")
    }
    for family in text_string_to_metric_families(page):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(told[name][1]) if name in told else name.endswith("_created"), name


@pytest.mark.looptime
async def test_no_series_is_there_twice_and_events_of_both_apis_count() -> None:
    """design 4, Metrics: both APIs watch pods and tell events, and a page must not have a series twice."""
    async with operated() as (client, operator):
        service = next(one for _, one in objects() if one["kind"] == INFERENCE_SERVICES.kind)
        await create(client, service)
        await asyncio.sleep(30)
        page = await client.list_all(EVENTS, namespace=service["metadata"]["namespace"], type=dict)
        assert {one["reason"] for one in page.items} == {"RuntimeNotFound"}
        operator.metrics.refresh()
        series = [line.rpartition(" ") for line in operator.metrics.render().decode().splitlines() if not line.startswith("#")]
    names = [name for name, _, _ in series]
    assert sorted(names) == sorted(set(names))
    assert {name: value for name, _, value in series}['regroup_events{outcome="written"}'] == "1.0"
