"""Masters serve the certificate of one Secret, which the leader renews, by a clock that jumps."""

import asyncio
import base64
import datetime as dt
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import prometheus_client as prom
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from master.admission.certificates import SKEW, issue
from master.admission.keeper import POLL_S, CertificateKeeper, CertificateObjects
from master.admission.metrics import AdmissionMetrics
from master.admission.rotation import Rotation
from master.kube.errors import KubeError
from tests.admission.cluster import DNS_NAME, NAME, NAMESPACE, TwoObjects, served
from topo.kit.tls import empty_server_context

pytestmark = pytest.mark.virtual_time
START = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
HOUR_S = 3600.0
LIFE_S = 3 * HOUR_S
FOREIGN = (
    b"not a certificate",
    b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    bytes(range(256)),
    issue(("elsewhere.svc",), START, dt.timedelta(days=90)).authority,
)


@dataclass
class Masters:
    """Some masters of one cluster, the first of which leads until `leader` says otherwise."""

    cluster: TwoObjects
    rotation: Rotation | None
    leader: int = 0
    keepers: list[CertificateKeeper] = field(default_factory=list)
    contexts: list[ssl.SSLContext] = field(default_factory=list)
    registries: list[prom.CollectorRegistry] = field(default_factory=list)

    def add(self) -> CertificateKeeper:
        number, loop = len(self.keepers), asyncio.get_running_loop()
        self.contexts.append(empty_server_context())
        self.registries.append(prom.CollectorRegistry())
        keeper = CertificateKeeper(
            self.cluster,
            CertificateObjects(namespace=NAMESPACE, secret=NAME, configuration=NAME),
            self.contexts[-1],
            names=(DNS_NAME,),
            rotation=self.rotation,
            acts=lambda: number == self.leader,
            metrics=AdmissionMetrics(self.registries[-1]),
            clock=loop.time,
            now=now,
        )
        self.keepers.append(keeper)
        return keeper

    def untrusted(self) -> list[int]:
        """Masters whose certificate the API server would refuse now."""
        return [number for number, tls in enumerate(self.contexts) if not self._trusts(tls)]

    def _trusts(self, context: ssl.SSLContext) -> bool:
        leaf, authorities = served(context), self.cluster.authorities
        if leaf is None or not authorities:
            return False
        policy = PolicyBuilder().store(Store(authorities)).time(now())
        try:
            policy.build_server_verifier(x509.DNSName(DNS_NAME)).verify(leaf, [])
        except x509.verification.VerificationError:
            return False
        return True


def now() -> dt.datetime:
    return START + dt.timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def masters(number: int = 3, *, own: bool = True, cluster: TwoObjects | None = None):
    life = dt.timedelta(seconds=LIFE_S)
    rotation = Rotation(names=(DNS_NAME,), life=life) if own else None
    made = Masters(cluster or TwoObjects(), rotation)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(made.add().run()) for _ in range(number)]
        yield made
        for task in tasks:
            task.cancel()


async def test_the_leader_makes_a_certificate_and_all_masters_serve_it() -> None:
    async with masters() as made:
        await asyncio.sleep(5)
        assert made.untrusted() == []
        assert made.cluster.writes == ["secret", "trust"]
        assert all(keeper.serves and not keeper.warnings for keeper in made.keepers)


async def test_at_no_moment_of_several_renewals_does_a_master_serve_what_is_not_trusted() -> None:
    async with masters() as made:
        await asyncio.sleep(5)
        changed_s, writes = 0.0, 0
        while (now_s := asyncio.get_running_loop().time()) < 2 * LIFE_S:
            if len(made.cluster.writes) != writes:
                changed_s, writes = now_s, len(made.cluster.writes)
            await asyncio.sleep(5 if now_s < changed_s + 90 else 300)
            assert made.untrusted() == []
            made.leader = int(now().timestamp() // 1800) % 3
        assert made.cluster.writes.count("secret") > 6
        assert not any(keeper.warnings for keeper in made.keepers)


async def test_masters_that_all_think_they_lead_end_with_one_certificate() -> None:
    async with masters(0) as made:
        keepers = [made.add() for _ in range(3)]
        async with asyncio.TaskGroup() as group:
            tasks = []
            for number, keeper in enumerate(keepers):
                made.leader = number
                tasks.append(group.create_task(keeper.run()))
                await asyncio.sleep(0)
            await asyncio.sleep(20)
            assert made.untrusted() == []
            for task in tasks:
                task.cancel()


async def test_a_webhook_that_nobody_trusts_is_told_by_the_leader_until_it_is_trusted() -> None:
    async with masters(2, cluster=TwoObjects(may_trust=False)) as made:
        await asyncio.sleep(20)
        assert made.untrusted() == [0, 1]
        (warning,) = made.keepers[0].warnings
        assert "do not trust" in warning.text
        assert "mutatingwebhookconfigurations is forbidden" in warning.text
        assert not made.keepers[1].warnings
        made.cluster.may_trust = True
        await asyncio.sleep(40)
        assert made.untrusted() == []
        assert not made.keepers[0].warnings


async def test_a_bundle_that_somebody_emptied_is_written_again() -> None:
    async with masters() as made:
        await asyncio.sleep(5)
        made.cluster.bundles = ["", "", ""]
        await asyncio.sleep(20)
        assert made.untrusted() == []


@pytest.mark.parametrize("bundle", FOREIGN)
async def test_a_bundle_that_somebody_else_wrote_is_replaced_at_the_next_look(
    bundle: bytes,
) -> None:
    """Their client owns the field from then on: an apply that forces nothing is a conflict."""
    async with masters() as made:
        await asyncio.sleep(5)
        written = made.cluster.bundles[0]
        for bundles in ([_b64(bundle)] * 3, [written, _b64(bundle), written]):
            made.cluster.bundles = bundles
            await asyncio.sleep(POLL_S + 5)
            assert made.cluster.bundles == [written] * 3
            assert made.untrusted() == []
        assert not any(keeper.warnings for keeper in made.keepers)


@pytest.mark.parametrize("bundle", FOREIGN)
async def test_authorities_in_the_secret_without_ours_are_written_again(bundle: bytes) -> None:
    """Whoever leads would have API servers trust them, and never the certificate that it shows."""
    async with masters() as made:
        await asyncio.sleep(5)
        assert made.cluster.secret is not None
        made.cluster.secret["data"]["ca.crt"] = _b64(bundle)
        made.cluster.version += 1
        await asyncio.sleep(2 * POLL_S + 5)
        assert made.untrusted() == []
        assert not any(keeper.warnings for keeper in made.keepers)


async def test_while_the_secret_cannot_be_read_the_old_certificate_serves_and_its_end_is_told() -> (
    None
):
    async with masters(1) as made:
        await asyncio.sleep(5)
        made.cluster.fault = KubeError("secrets is forbidden", status=403)
        await asyncio.sleep(0.6 * LIFE_S)
        keeper = made.keepers[0]
        assert keeper.serves
        assert not keeper.warnings
        await asyncio.sleep(0.3 * LIFE_S)
        assert keeper.serves
        (warning,) = keeper.warnings
        assert warning.code == "admission-certificate"
        assert "secrets is forbidden" in warning.text
        assert "2030-01-01" in warning.text
        made.cluster.fault = None
        await asyncio.sleep(180)
        assert made.untrusted() == []
        assert not keeper.warnings


async def test_a_secret_that_is_not_there_is_told_with_the_next_step() -> None:
    async with masters(1, cluster=TwoObjects(secret=None)) as made:
        await asyncio.sleep(5)
        (warning,) = made.keepers[0].warnings
        assert NAME in warning.text
        assert "placement.enabled" in warning.fix


async def test_the_life_of_the_certificate_is_told_by_two_metrics() -> None:
    async with masters(1) as made:
        names = [
            f"topo_master_admission_certificate_{edge}_timestamp_seconds"
            for edge in ("begin", "end")
        ]
        sample = made.registries[0].get_sample_value
        assert list(map(sample, names)) == [0, 0]
        await asyncio.sleep(5)
        start_s = START.timestamp()
        begin_s = start_s - SKEW.total_seconds()
        assert list(map(sample, names)) == [
            pytest.approx(begin_s, abs=5),
            pytest.approx(start_s + LIFE_S, abs=5),
        ]


async def test_a_certificate_of_somebody_else_is_served_and_never_written() -> None:
    pair = issue((DNS_NAME,), START, dt.timedelta(days=90))
    cluster = TwoObjects()
    async with masters(own=False, cluster=cluster) as made:
        await asyncio.sleep(5)
        assert "no certificate yet" in made.keepers[0].warnings[0].text
        cluster._patch(
            {
                "metadata": {"resourceVersion": "1"},
                "data": {"tls.crt": _b64(pair.chain), "tls.key": _b64(pair.key)},
            },
            is_secret=True,
        )
        cluster.bundles = [_b64(pair.authority)]
        cluster.writes.clear()
        await asyncio.sleep(20)
        assert made.untrusted() == []
        assert cluster.writes == []


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()
