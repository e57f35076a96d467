"""The admission webhook on a real API server, beside Volcano's own webhooks and controllers."""

import asyncio
import base64
import datetime as dt
import itertools
import re
import ssl
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from master.admission.certificates import Pair, issue
from tests.e2e.controlplane.admission import CONFIGURATIONS, NAME
from tests.e2e.controlplane.client import MERGE, Api, ApiError
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.admission_master import AdmissionMaster, admission_master
from tests.e2e.scheduling.gang_master import api_url
from tests.e2e.scheduling.jobs import JOBS, NODES, WORDS, bound, events_of
from tests.gangs.admission.patching import DOMAIN, SIZE, batch, stamps, task, volcano
from tests.support.waiting import eventually
from topo.gangs.annotation_keys import BY_LINKS
from topo.publish import gpu_annotations

SAMPLE, REGULAR = (
    yaml.safe_load((Path(__file__).parent / "vendor" / f"sample-volcano-{each}.yaml").read_text())
    for each in ("supernode", "regular")
)
SCORES, LOSSES, _ = gpu_annotations.keys("metax-tech.com")
GATE = {"name": "metax-tech.com/placement"}
GROUP, RANK = "metax-tech.com/gpu-group", "metax-tech.com/gang-rank"
TRIED = 20
_numbers = itertools.count(1)


async def a_namespace(api: Api, **labels: str) -> str:
    """A namespace of this test alone."""
    name = f"users-{next(_numbers)}"
    await api.namespace(name, **labels)
    return name


def jobs(namespace: str) -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"


async def pods(api: Api, namespace: str, number: int) -> list[Any]:
    """The pods of the namespace, once there are so many."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    async def are_there() -> bool:
        return len(await api.items(path)) == number

    await eventually(are_there)
    return await api.items(path)


def gates(pod: Mapping[str, Any]) -> list[Any]:
    return list(pod["spec"].get("schedulingGates", ()))


async def test_the_vendors_sample_is_stamped_and_its_pods_wait_with_their_ranks(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path):
        namespace = await a_namespace(api)
        made = await api.create(jobs(namespace), SAMPLE)
        assert made["spec"]["minAvailable"] == 8
        asked = {"gpu-group-size": "64", "gang-pods": "8", "gang-pods-per-group": "8"}
        assert stamps(made) == [
            {**asked, "gang-rank-offset": "0"},
            {**asked, "gang-rank-offset": "1"},
        ]
        found = await pods(api, namespace, 8)
        assert all(gates(pod) == [GATE] for pod in found)
        assert {pod["metadata"]["labels"][GROUP] for pod in found} == {"0"}
        ranks = {pod["metadata"]["annotations"][RANK]: pod["metadata"]["name"] for pod in found}
        assert set(ranks) == {str(number) for number in range(8)}
        assert ranks["0"] == "pytorch-demo-master-0"
        assert ranks["7"] == "pytorch-demo-worker-6"

        async def is_told_that_there_are_no_groups() -> bool:  # the config file names none
            events = await api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
            return "GangFindsNoGroups" in {each["reason"] for each in events}

        await eventually(is_told_that_there_are_no_groups)


async def test_an_indexed_job_is_stamped_and_its_completion_index_is_the_rank(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path):
        namespace = await a_namespace(api)
        job = batch(4)
        job["spec"]["template"]["spec"] |= {"restartPolicy": "Never"}
        container = job["spec"]["template"]["spec"]["containers"][0]
        container |= {"name": "train", "image": "train"}
        await api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
        groups = {
            pod["metadata"]["annotations"][RANK]: pod["metadata"]["labels"][GROUP]
            for pod in await pods(api, namespace, 4)
            if gates(pod) == [GATE]
        }
        assert groups == {"0": "0", "1": "0", "2": "1", "3": "1"}


async def test_a_namespace_that_wants_nodes_by_links_gets_the_best_with_a_job_of_no_groups(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """The manual's job for an ordinary cluster: two pods of two GPUs, one of which may start.

    While no master answers, and in any other namespace, its pods are Volcano's alone.
    """

    async def has_nodes(namespace: str) -> bool:
        found = await api.items(f"/api/v1/namespaces/{namespace}/pods")
        return len(found) == 2 and all(pod["spec"].get("nodeName") for pod in found)

    async with admission_master(cluster, api, tmp_path) as master:
        names = sorted(node["metadata"]["name"] for node in await api.items(NODES))
        for number, name in enumerate(names):
            loss = 20 if number == len(names) // 2 else 96
            stated = {SCORES: '{"2":16}', LOSSES: f'{{"2":{loss}}}'}
            await api.merge(f"{NODES}/{name}", {"metadata": {"annotations": stated}})
        wanting = {WORDS.by_links: BY_LINKS}
        linked = await a_namespace(api, **wanting)
        await api.create(jobs(linked), REGULAR)
        await eventually(partial(has_nodes, linked))
        found = await pods(api, linked, 2)
        assert {pod["spec"]["nodeName"] for pod in found} == {names[len(names) // 2]}
        gangs = {pod["metadata"]["annotations"][WORDS.gang_name] for pod in found}
        assert len(gangs) == 2
        master.stop()
        for namespace in (await a_namespace(api), await a_namespace(api, **wanting)):
            await api.create(jobs(namespace), REGULAR)
            await eventually(partial(has_nodes, namespace))
            for pod in await pods(api, namespace, 2):
                assert WORDS.gang_name not in pod["metadata"].get("annotations", {})


async def test_a_namespace_that_opted_out_and_jobs_without_groups_are_left_alone(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path):
        out = await a_namespace(api, **{"metax-tech.com/placement": "disabled"})
        made = await api.create(jobs(out), SAMPLE)
        assert stamps(made) == [{"gpu-group-size": "64"}, {}]
        assert not any(gates(pod) for pod in await pods(api, out, 8))


async def test_while_no_master_answers_jobs_are_created_without_groups(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path) as master:
        master.program.stop()
        namespace = await a_namespace(api)
        made = await api.create(jobs(namespace), SAMPLE)
        assert stamps(made) == [{"gpu-group-size": "64"}, {}]
        assert not any(gates(pod) for pod in await pods(api, namespace, 8))


async def test_failing_closed_with_certificates_of_somebody_else_that_change_while_it_serves(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """`failurePolicy: Fail`: without a webhook jobs that ask for groups are refused, others not.

    What another has written into the Secret since is served without a restart.
    """
    flags = ("--admission-certificates=external",)
    rendering = "placement-cert-manager"
    async with admission_master(cluster, api, tmp_path, *flags, rendering=rendering) as master:
        namespace = await a_namespace(api)
        with pytest.raises(ApiError, match=r"failed calling webhook .+volcano-jobs\.placement"):
            await api.create(jobs(namespace), SAMPLE)
        plain = volcano(task("worker", 1))
        plain["metadata"] = {"name": "plain"}
        container = plain["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        container |= {"name": "main", "image": "alpine:3.19"}
        await api.create(jobs(namespace), plain)
        await pods(api, namespace, 1)

        async def is_stamped() -> bool:
            try:
                made = await api.call("POST", jobs(namespace), SAMPLE, dryRun="All")
            except ApiError:
                return False
            return "gang-pods" in stamps(made)[0]

        process = master.program.pid
        names = (f"{NAME}.{master.namespace}.svc",)
        for _ in range(2):  # a second authority takes the place of the first
            now = dt.datetime.now(dt.UTC)
            pair = issue(names, now, dt.timedelta(days=1))
            await written_as_by_cert_manager(api, master.namespace, pair)
            await eventually(partial(is_served, master, pair))
            await eventually(is_stamped)
        assert master.program.pid == process


async def is_served(master: AdmissionMaster, pair: Pair) -> bool:
    """Whether the port shows a certificate of this authority."""
    trusting = ssl.create_default_context(cadata=pair.authority.decode())
    name = f"{NAME}.{master.namespace}.svc"
    try:
        _, writer = await asyncio.open_connection(
            master.address, 443, ssl=trusting, server_hostname=name
        )
    except (ssl.SSLError, ConnectionError):
        return False
    writer.close()
    return True


async def written_as_by_cert_manager(api: Api, namespace: str, pair: Pair) -> None:
    """The Secret of its Certificate, and the bundle that its injector writes."""
    text = {"tls.crt": pair.chain, "tls.key": pair.key, "ca.crt": pair.authority}
    data = {name: base64.b64encode(each).decode() for name, each in text.items()}
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    secret = {"metadata": {"name": NAME}, "type": "kubernetes.io/tls", "data": data}
    if any(each["metadata"]["name"] == NAME for each in await api.items(secrets)):
        await api.call("PATCH", f"{secrets}/{NAME}", {"data": data}, content_type=MERGE)
    else:
        await api.create(secrets, secret)
    path = f"{CONFIGURATIONS}/{NAME}"
    webhooks = (await api.get(path))["webhooks"]
    for each in webhooks:
        each["clientConfig"]["caBundle"] = data["ca.crt"]
    await api.call("PATCH", path, {"webhooks": webhooks}, content_type=MERGE)


async def test_authorities_that_somebody_else_wrote_are_replaced_by_ours(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """In the configuration, where the server records who owns the field, and in the Secret."""
    stranger = issue(("elsewhere.svc",), dt.datetime.now(dt.UTC), dt.timedelta(days=90)).authority
    async with admission_master(cluster, api, tmp_path) as master:
        secret = f"/api/v1/namespaces/{master.namespace}/secrets/{NAME}"
        ours = (await api.get(secret))["data"]["ca.crt"]

        async def is_whole() -> bool:
            webhooks = (await api.get(f"{CONFIGURATIONS}/{NAME}"))["webhooks"]
            bundles = {each["clientConfig"].get("caBundle") for each in webhooks}
            return bundles == {(await api.get(secret))["data"].get("ca.crt")} == {ours}

        texts = [base64.b64encode(each).decode() for each in (stranger, b"not a certificate")]
        for text in texts:
            webhooks = (await api.get(f"{CONFIGURATIONS}/{NAME}"))["webhooks"]
            for each in webhooks:
                each["clientConfig"]["caBundle"] = text
            await api.merge(f"{CONFIGURATIONS}/{NAME}", {"webhooks": webhooks})
            await eventually(is_whole)
        await api.merge(secret, {"data": {"ca.crt": texts[1]}})
        await eventually(is_whole)


async def test_a_wrong_job_runs_without_groups_and_its_events_say_why(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path) as master:
        await api.create(JOBS, asking.volcano_job("odd", 2, 12))
        await eventually(lambda: bound(api, "odd", 2))

        async def is_told() -> bool:
            return "GangUngrouped" in await events_of(api, "odd")

        await eventually(is_told)
        told = await events_of(api, "odd")
        assert "12 is not a multiple of the 8 GPUs of a pod" in told["GangUngrouped"]
        assert "give 8 or 16" in told["GangUngrouped"]
        assert "GangPassedBy" not in told
        url = f"{api_url(master.program)}/metrics"
        async with ClientSession() as session, session.get(url) as answer:
            assert "topo_master_gang_pods_slipped_total 0.0" in await answer.text()


async def test_a_misspelt_key_and_a_size_as_a_label_are_told_to_who_creates_the_job(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    """The chart's conditions let the API server send such a job, of either kind."""
    async with admission_master(cluster, api, tmp_path):
        namespace = await a_namespace(api)
        misspelt = asking.volcano_job("misspelt", 2)
        template = misspelt["spec"]["tasks"][1]["template"]
        template["metadata"] = {"annotations": {f"{DOMAIN}/gpu-groupsize": "16"}}
        await api.create(jobs(namespace), misspelt)
        (told,) = api.warnings
        assert "spec.tasks[1].template.metadata.annotations" in told
        assert f"did you mean {SIZE}?" in told
        labelled = batch(2, size=None)
        labelled["metadata"]["labels"] = {SIZE: "16"}
        pod = labelled["spec"]["template"]["spec"]
        pod["restartPolicy"] = "Never"
        pod["containers"][0] |= {"name": "main", "image": "alpine:3.19"}
        await api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", labelled)
        (told,) = api.warnings
        assert "give it as an annotation" in told


async def test_where_that_is_asked_for_a_wrong_job_is_refused_with_the_fix(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path, "--admission-invalid=deny"):
        namespace = await a_namespace(api)
        wrong = volcano(task("worker", 4, gpu_group_size="60"))
        with pytest.raises(ApiError, match="give 56 or 64") as refused:
            await api.create(jobs(namespace), wrong)
        assert refused.value.status == 422


async def test_a_master_of_the_charts_account_reads_no_other_secret(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    async with admission_master(cluster, api, tmp_path) as master:

        def asked() -> set[tuple[str, str]]:
            calls = cluster.calls(f"{master.namespace}:topo-master")
            return {(each.verb, each.name) for each in calls if each.resource == "secrets"}

        # The API server writes its audit log after its answer.
        await eventually(lambda: asked() >= {("get", NAME), ("patch", NAME)})
        assert asked() == {("get", NAME), ("patch", NAME)}


async def test_what_the_webhook_costs_a_job(cluster: Cluster, api: Api, tmp_path: Path) -> None:
    """A figure, beside the same without it; each answer holds the stamps."""
    async with admission_master(cluster, api, tmp_path):
        namespace = await a_namespace(api)
        out = await a_namespace(api, **{"metax-tech.com/placement": "disabled"})
        took: dict[str, list[float]] = {namespace: [], out: []}
        for _ in range(TRIED):
            for where, times in took.items():
                began_s = time.perf_counter()
                made = await api.call("POST", jobs(where), SAMPLE, dryRun="All")
                times.append(time.perf_counter() - began_s)
                assert ("gang-pods" in stamps(made)[1]) == (where == namespace)
        for where, times in took.items():
            times.sort()
            what = "with" if where == namespace else "without"
            median, worst = times[TRIED // 2], times[TRIED * 99 // 100]
            print(f"a job {what} the webhook: median {median * 1e3:.1f} ms, p99 {worst * 1e3:.1f}")
        print(_seen_by_the_api_server(await api.call("GET", "/metrics")))


def _seen_by_the_api_server(metrics: str) -> str:
    """How long the API server says that it waited for the webhook."""
    pattern = (
        r"apiserver_admission_webhook_admission_duration_seconds_bucket"
        r'{[^}]*name="volcano-jobs\.placement[^}]*le="([^"]+)"[^}]*} (\d+)'
    )
    found = re.findall(pattern, metrics)
    assert found
    return "webhook as the API server counts it, " + ", ".join(f"<= {le} s: {n}" for le, n in found)
