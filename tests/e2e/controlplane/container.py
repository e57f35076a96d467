"""One container of a pod as a process: its command line, its variables, its probes, its end."""

import asyncio
import base64
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.e2e.controlplane import sandbox
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.volumes import field

HARDWARE = "/hardware"
"""Where a container finds the recording of its node."""
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_ALL_ADDRESSES = re.compile(r"(--metrics-address=)(?=\d+$)")


class Container:
    """A container of a pod; the pod's files lie in `folder`, its node's recording in `hardware`."""

    def __init__(self, pod: Any, spec: Any, folder: Path, hardware: Path | None) -> None:
        self.name: str = spec["name"]
        self.image: str = spec.get("image", "")
        self.restarts = 0
        self.log = folder / f"{self.name}.log"
        self._pod, self._spec, self._folder, self._hardware = pod, spec, folder, hardware
        self._address: str = pod["status"]["podIP"]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The number of its process, None while it has none."""
        return None if self._process is None else self._process.pid

    async def run(self, variables: Mapping[str, str]) -> int:
        """Runs it once; its exit code. Cancelled, it ends the process at once."""
        argv = [*self._spec.get("command", ()), *self._spec.get("args", ())]
        argv = [_on(self._address, _expanded(text, variables)) for text in argv]
        root = self._folder / f"{self.name}.root"
        root.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *sandbox.command(root, self._mounts(), argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=sandbox.environment(variables),
                start_new_session=True,
            )
        try:
            return await self._process.wait()
        finally:
            await _killed(self._process)
            self._process = None

    async def end(self, grace_s: float) -> None:
        """Asks it to end as a kubelet does: its hook, SIGTERM, and SIGKILL after the grace."""
        process = self._process
        if process is None:
            return
        with suppress(TimeoutError, ProcessLookupError):
            async with asyncio.timeout(grace_s):
                await self._before_the_end()
                process.send_signal(signal.SIGTERM)
                await process.wait()
        if process.returncode is None:
            process.kill()

    async def _before_the_end(self) -> None:
        hook = self._spec.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        if hook is None:
            return
        process = await asyncio.create_subprocess_exec(*hook)
        try:
            await process.wait()
        finally:
            await _killed(process)

    async def variables(self, api: Api) -> dict[str, str]:
        """Its environment, with what the harness adds: where to listen, whom to ask."""
        found: dict[str, str] = {}
        for each in self._spec.get("env", ()):
            text = await self._value(api, each)
            found[each["name"]] = _expanded(text, found)
        return found

    async def _value(self, api: Api, variable: Any) -> str:
        source = variable.get("valueFrom")
        if source is None:
            return str(variable.get("value", ""))
        if "fieldRef" in source:
            return field(self._pod, source["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in source:
            part, _, name = source["resourceFieldRef"]["resource"].partition(".")
            return str(self._spec["resources"][part][name])
        namespace = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}"
        if "configMapKeyRef" in source:
            reference = source["configMapKeyRef"]
            data = (await api.get(f"{namespace}/configmaps/{reference['name']}"))["data"]
            return str(data[reference["key"]])
        reference = source["secretKeyRef"]
        data = (await api.get(f"{namespace}/secrets/{reference['name']}"))["data"]
        return base64.b64decode(data[reference["key"]]).decode()

    def _mounts(self) -> dict[str, Path]:
        mounts = {"/etc/hosts": self._folder / "hosts"}
        if self._hardware is not None:
            mounts[HARDWARE] = self._hardware
        for each in self._spec.get("volumeMounts", ()):
            volume = self._folder / "volumes" / each["name"]
            mounts[each["mountPath"]] = volume / each.get("subPath", "")
        return mounts

    async def passes(self, session: ClientSession, probe: str, *, if_absent: bool) -> bool:
        """Whether an httpGet probe of it passes, asked as a kubelet asks."""
        get = self._spec.get(probe, {}).get("httpGet")
        if get is None:
            return if_absent
        scheme = get.get("scheme", "HTTP").lower()
        url = f"{scheme}://{self._address}:{self._port(get['port'])}{get.get('path', '/')}"
        limit = ClientTimeout(total=self._spec[probe].get("timeoutSeconds", 1))
        try:
            async with session.get(url, timeout=limit, ssl=False) as answer:
                return 200 <= answer.status < 400
        except (ClientError, OSError, TimeoutError):
            return False

    def _port(self, wanted: int | str) -> int:
        if isinstance(wanted, int):
            return wanted
        ports = {port["name"]: port["containerPort"] for port in self._spec["ports"]}
        return int(ports[wanted])

    def setting(self, probe: str, name: str, usual: float) -> float:
        """A number of a probe, such as `periodSeconds`."""
        return float(self._spec.get(probe, {}).get(name, usual))


async def _killed(process: asyncio.subprocess.Process) -> None:
    """Returns when the process is gone: nothing of it is left when its loop ends."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), text)


def _on(address: str, argument: str) -> str:
    """All pods share one machine: what would listen everywhere listens on the pod's address."""
    return _ALL_ADDRESSES.sub(rf"\g<1>{address}:", argument)
