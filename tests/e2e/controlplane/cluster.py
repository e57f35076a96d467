"""A real control plane on the loopback address, without containers, and its life.

etcd, kube-apiserver with TLS, RBAC and an audit log, kube-controller-manager, kube-scheduler, kwok
in place of kubelets, and Volcano and Kueue where a test gives a configuration for them.
"""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession

from tests.chaos.ports import own_ports
from tests.e2e.controlplane import core, nodes, volcano
from tests.e2e.controlplane.audit import Call, calls
from tests.e2e.controlplane.client import Access, Api, ApiError
from tests.e2e.controlplane.core import Files, Ports
from tests.e2e.controlplane.kueue import Kueue
from tests.e2e.controlplane.kwok import LEASE_S, kwok
from tests.e2e.controlplane.processes import Program
from tests.e2e.controlplane.programs import KUBE, KUEUE, TOOLS, VOLCANO, build
from tests.support.waiting import CEILING_S, eventually
from topo.sim.worlds.presets import World

_LOOK_S = 0.02
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/default"


class Cluster:
    """One control plane. `start` and `stop` may be called from any loop: it holds none.

    `lease_s`: how long the lease of a node is. More nodes need longer ones, and controllers that
    wait for them. `pod_groups`: the gangs of Kubernetes are switched on. `kueue`: what its
    configuration has besides what the harness needs; {} for its defaults.
    """

    def __init__(
        self,
        home: Path,
        ports: Ports,
        *,
        volcano_configuration: str | None = None,
        lease_s: int = LEASE_S,
        pod_groups: bool = False,
        kueue: Mapping[str, Any] | None = None,
    ) -> None:
        with_volcano = volcano_configuration is not None
        build(KUBE, TOOLS, *((VOLCANO,) if with_volcano else ()))
        if kueue is not None:
            build(KUEUE)
        self.files = Files(home)
        self.ports = ports
        self.etcd = core.etcd(self.files, ports)
        self.api_server, self.admin = core.api_server(self.files, ports)
        self.admin.kubeconfig(self.files.kubeconfig)
        self.controllers = core.controller_manager(self.files)
        if lease_s > LEASE_S:
            self.controllers.argv += (f"--node-monitor-grace-period={2 * lease_s}s",)
        self.scheduler = core.scheduler(self.files)
        if pod_groups:
            self.api_server.argv += core.SERVES_POD_GROUPS
            for program in (self.api_server, self.controllers, self.scheduler):
                program.argv += core.POD_GROUPS
        self.kwok = kwok(self.files, lease_s=lease_s)
        self.volcano: tuple[Program, ...] = ()
        if volcano_configuration is not None:
            of_volcano = volcano.programs(self.files, volcano_configuration)
            self.volcano = (*of_volcano, volcano.webhooks(self.files, ports))
        self.kueue = Kueue(self.files, ports, kueue) if kueue is not None else None
        self._defined = volcano.NEEDED if with_volcano else (volcano.HYPERNODES,)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All of its processes, in the order in which they must end."""
        of_kubernetes = (self.kwok, self.scheduler, self.controllers, self.api_server, self.etcd)
        of_kueue = (self.kueue.program,) if self.kueue is not None else ()
        return (*of_kueue, *self.volcano, *of_kubernetes)

    async def start(self, world: World | None = None) -> None:
        """Returns when all serve and each node of the world is Ready and takes pods."""
        self.etcd.start()
        await self.start_api_server()
        for program in (self.controllers, self.scheduler, self.kwok):
            program.start()
        async with self.api() as api:
            await define(api, *self._defined)
            if self.kueue is not None:
                await establish(api, self.kueue.definitions())
                await self.kueue.start(api)
            if self.volcano:
                await self._start_volcano(api)
            if world is not None:
                await nodes.create(api, [nodes.node_object(node) for node in world.nodes])
            await eventually(
                lambda: _is_there(api, "/api/v1/namespaces/default/serviceaccounts/default")
            )
            if self.volcano:
                await eventually(lambda: _is_open(api))

    def stop(self) -> None:
        """Kills all of them: a polite end takes ten seconds. What they wrote stays where it is."""
        for program in self.programs:
            program.stop(0.0, signal.SIGKILL)

    async def start_api_server(self) -> None:
        """Returns when the API server says that it is ready."""
        self.api_server.start()
        async with asyncio.timeout(CEILING_S), self.api() as api:
            while True:
                self.etcd.must_live()
                self.api_server.must_live()
                try:
                    await api.get("/readyz")
                except (ClientError, ApiError):
                    await asyncio.sleep(_LOOK_S)
                else:
                    return

    async def stop_api_server(self) -> None:
        """The API server is gone, as by a crash; all others stay."""
        await asyncio.to_thread(self.api_server.stop, 0.0)

    async def compact(self) -> None:
        """The store forgets all that was before now: an old resourceVersion is then gone (410)."""
        url = f"http://{core.LOOPBACK}:{self.ports.etcd}/v3/kv"
        async with ClientSession() as session:
            async with session.post(f"{url}/range", json={"key": "AA=="}) as answer:
                revision = (await answer.json())["header"]["revision"]
            async with session.post(f"{url}/compaction", json={"revision": revision}) as answer:
                answer.raise_for_status()

    @asynccontextmanager
    async def api(self, access: Access | None = None) -> AsyncIterator[Api]:
        """A client with an administrator's rights, or with those of `access`."""
        async with Api(access or self.admin) as api:
            yield api

    def calls(self, account: str) -> list[Call]:
        """What a service account, `namespace:name`, has asked of the API server until now."""
        return calls(self.files.audit, account)

    async def _start_volcano(self, api: Api) -> None:
        """Its webhooks first: they fail closed, and judge the queue that its scheduler makes."""
        for path, each in volcano.webhook_objects(self.ports):
            await api.create(path, each)
        for program in reversed(self.volcano):
            program.start()


@contextmanager
def own_cluster(home: Path, **parts: Any) -> Iterator[Cluster]:
    """A cluster on ports of its own with these parts, not started yet; it ends with the block."""
    with own_ports() as ports:
        cluster = Cluster(home, Ports(*ports), **parts)
        try:
            yield cluster
        finally:
            cluster.stop()


async def define(api: Api, *names: str) -> None:
    """Makes these definitions of Volcano; returns when the API server knows their objects."""
    await establish(api, list(volcano.definitions(*names)))


async def establish(api: Api, definitions: Sequence[Any]) -> None:
    """Makes these definitions; returns when the API server knows their objects."""
    for definition in definitions:
        await api.create(DEFINITIONS, definition)
    names = [each["metadata"]["name"] for each in definitions]
    await eventually(lambda: _are_established(api, names))


async def service_account(
    api: Api,
    namespace: str,
    name: str,
    rules: Sequence[dict[str, Any]] = (),
    *,
    is_namespaced: bool = False,
) -> None:
    """Create the account and grant it these rules: in the whole cluster, or in its namespace alone.

    Return when the API server applies them: it reads new bindings a moment after they are created.
    """
    await api.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}
    )
    if not rules:
        return
    group = "rbac.authorization.k8s.io"
    kind, scope = ("Role", f"namespaces/{namespace}/") if is_namespaced else ("ClusterRole", "")
    path, full = f"/apis/{group}/v1/{scope}{kind.lower()}", f"{namespace}-{name}"
    await api.create(f"{path}s", {"metadata": {"name": full}, "rules": rules})
    await api.create(
        f"{path}bindings",
        {
            "metadata": {"name": full},
            "roleRef": {"apiGroup": group, "kind": kind, "name": full},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        },
    )
    user, where = f"system:serviceaccount:{namespace}:{name}", namespace if is_namespaced else ""
    await eventually(lambda: _are_granted(api, user, rules, where))


async def _are_granted(api: Api, user: str, rules: Sequence[dict[str, Any]], where: str) -> bool:
    """Whether the API server allows the user all that the rules name.

    `where` is the namespace, empty for all of them.
    """
    rights = (
        right
        for rule in rules
        for right in itertools.product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
        )
    )
    for group, resource, verb, name in rights:
        plural, _, subresource = resource.partition("/")
        asked = {"group": group, "resource": plural, "subresource": subresource}
        asked |= {"verb": verb, "name": name, "namespace": where}
        review = {"spec": {"user": user, "resourceAttributes": asked}}
        answer = await api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        if not answer["status"]["allowed"]:
            return False
    return True


async def token(
    api: Api, namespace: str, name: str, *, audience: str = "", bound_to: Any = None
) -> str:
    """A token of the account; `bound_to` is an object {kind, apiVersion, name, uid}."""
    spec: dict[str, Any] = {"audiences": [audience] if audience else [], "expirationSeconds": 3600}
    if bound_to is not None:
        spec["boundObjectRef"] = bound_to
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    issued: str = (await api.create(path, {"spec": spec}))["status"]["token"]
    return issued


async def account_access(cluster: Cluster, namespace: str, name: str) -> Access:
    """What a service account needs to use this cluster with its own rights only."""
    async with cluster.api() as api:
        issued = await token(api, namespace, name)
    return Access(cluster.admin.server, cluster.admin.ca, issued)


async def _is_there(api: Api, path: str) -> bool:
    try:
        await api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


async def _is_open(api: Api) -> bool:
    try:
        queue = await api.get(_QUEUE)
    except ApiError:
        return False
    return bool(queue.get("status", {}).get("state") == "Open")


async def _are_established(api: Api, names: Sequence[str]) -> bool:
    found = {each["metadata"]["name"]: each for each in await api.items(DEFINITIONS)}
    return all(
        any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in found[name].get("status", {}).get("conditions") or ()
        )
        for name in names
    )
