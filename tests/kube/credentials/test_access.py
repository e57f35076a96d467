"""Whom the API server sees, and whom we believe to be the API server: over real TLS."""

import base64
import datetime as dt
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from structlog.testing import capture_logs

from master.kube.advice import next_step
from master.kube.client import Call, KubeClient
from master.kube.credentials.access import RENEW_S
from master.kube.credentials.config import KubeConfig
from master.kube.errors import Failure, KubeError
from tests.kube.plain import client_of, kubeconfig
from topo.model.errors import BadInputError
from topo.sim.certificates import Authority

NODES = Call(method="GET", path="/api/v1/nodes")


@asynccontextmanager
async def tls_server(
    authority: Authority, seen: list[tuple[str, str]], *, status: Callable[[str], int]
) -> AsyncIterator[str]:
    """The URL of a server that notes `(client's name, token)` and judges the token by `status`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.leaf("server", "127.0.0.1"))
    context.load_verify_locations(authority.certificate_file)
    context.verify_mode = ssl.CERT_OPTIONAL

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert") or {}
        names = [value.split()[-1] for part in certificate.get("subject", ()) for _, value in part]
        token = request.headers.get("Authorization", "")
        seen.append((names[0] if names else "", token))
        return web.json_response({}, status=status(token))

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    try:
        yield f"https://127.0.0.1:{server.port}"
    finally:
        await server.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.at(tmp_path / "pki")


@pytest.fixture
def seen() -> list[tuple[str, str]]:
    return []


def client_certificate(authority: Authority, name: str) -> tuple[Path, Path]:
    """Files (certificate, key) of a user."""
    signer = load_pem_private_key(authority.key_file.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(
            x509.load_pem_x509_certificate(authority.certificate_file.read_bytes()).subject
        )
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    files = authority.directory / "user.pem", authority.directory / "user.key"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


async def call(config: KubeConfig, **options: Any) -> bytes:
    client = KubeClient(config, **options)
    await client.open()
    try:
        return await client.call(NODES)
    finally:
        await client.close()


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize("inline", [True, False])
async def test_a_user_of_a_kubeconfig_is_known_by_its_certificate(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]], *, inline: bool
) -> None:
    """The certificates may be in the file, or be files named relative to it."""
    certificate, key = client_certificate(authority, "master-user")
    ca = authority.certificate_file
    if inline:
        user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
        cluster = {"certificate-authority-data": data(ca)}
    else:
        user = {"client-certificate": "pki/" + certificate.name, "client-key": "pki/" + key.name}
        cluster = {"certificate-authority": str(ca)}
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, user=user, cluster=cluster)
        assert await call(KubeConfig(kubeconfig=path)) == b"{}"
    assert seen == [("master-user", "")]


async def test_a_server_of_another_authority_is_not_asked(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    other = Authority.at(tmp_path / "other")
    cluster = {"certificate-authority": str(other.certificate_file)}
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, user={"token": "secret-token-1"}, cluster=cluster)
        with pytest.raises(KubeError) as raised:
            await call(KubeConfig(kubeconfig=path))
    assert raised.value.failure is Failure.TLS
    assert "certificate-authority in the kubeconfig" in next_step(raised.value)
    assert "secret-token-1" not in str(raised.value)
    assert seen == [], "no token was sent"


async def test_an_authority_that_is_renewed_is_read_again(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(Authority.at(tmp_path / "other").certificate_file.read_bytes())
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, cluster={"certificate-authority": str(ca)})
        client = KubeClient(KubeConfig(kubeconfig=path))
        await client.open()
        try:
            with pytest.raises(KubeError):
                await client.call(NODES)
            ca.write_bytes(authority.certificate_file.read_bytes())
            assert await client.call(NODES) == b"{}"
        finally:
            await client.close()


async def test_a_user_whose_certificate_is_renewed_is_known_again(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    """The server ends the connection with a user whose certificate it refuses."""
    certificate, key = client_certificate(authority, "master-user")
    renewed = certificate.read_bytes(), key.read_bytes()
    other = client_certificate(Authority.at(tmp_path / "other"), "stranger")
    certificate.write_bytes(other[0].read_bytes())
    key.write_bytes(other[1].read_bytes())
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    cluster = {"certificate-authority": str(authority.certificate_file)}
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, user=user, cluster=cluster)
        async with client_of(path) as client:
            with pytest.raises(KubeError):
                await client.call(NODES)
            certificate.write_bytes(renewed[0])
            key.write_bytes(renewed[1])
            assert await client.call(NODES) == b"{}"
    assert seen == [("master-user", "")]


async def test_a_server_is_not_verified_where_the_file_says_so(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, cluster={"insecure-skip-tls-verify": True})
        with capture_logs() as logs:
            assert await call(KubeConfig(kubeconfig=path)) == b"{}"
    assert any("is not verified" in entry["event"] for entry in logs)


class Pod:
    """A pod's service account on a disk, in an environment that names the server."""

    def __init__(self, folder: Path, url: str, authority: Authority) -> None:
        folder.mkdir()
        self.token = folder / "token"
        (folder / "ca.crt").write_bytes(authority.certificate_file.read_bytes())
        host, port = url.removeprefix("https://").split(":")
        names = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        self.config = KubeConfig(service_account=folder, environment=names)


async def test_a_pod_asks_with_the_token_that_the_kubelet_renews(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    """A token is read anew each minute, and at once when it is refused."""
    now_s = 0.0
    good = "Bearer pod-token-1"
    async with tls_server(
        authority, seen, status=lambda token: 200 if token == good else 401
    ) as url:
        pod = Pod(tmp_path / "account", url, authority)
        pod.token.write_text("pod-token-1\n")
        client = KubeClient(pod.config, clock=lambda: now_s)
        await client.open()
        try:
            await client.call(NODES)
            pod.token.write_text("pod-token-2")
            await client.call(NODES)
            assert seen.pop() == ("", "Bearer pod-token-1"), "it is not read for every call"
            now_s, good = RENEW_S, "Bearer pod-token-2"
            await client.call(NODES)
            assert seen[1:] == [("", "Bearer pod-token-2")]
            pod.token.write_text("pod-token-3")
            good = "Bearer pod-token-3"
            await client.call(NODES)
            assert [token for _, token in seen[-2:]] == ["Bearer pod-token-2", good]
        finally:
            await client.close()


async def test_a_token_that_is_refused_for_good_is_one_error_after_two_calls(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    async with tls_server(authority, seen, status=lambda _: 401) as url:
        pod = Pod(tmp_path / "account", url, authority)
        pod.token.write_text("pod-token-1\n")
        with pytest.raises(KubeError) as raised:
            await call(pod.config)
    assert (raised.value.status, raised.value.is_denied, len(seen)) == (401, True, 2)
    assert "has it expired" in next_step(raised.value)


async def test_a_token_file_that_vanished_leaves_the_token_there_is(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    now_s = 0.0
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        pod = Pod(tmp_path / "account", url, authority)
        pod.token.write_text("pod-token-1")
        client = KubeClient(pod.config, clock=lambda: now_s)
        await client.open()
        try:
            pod.token.unlink()
            now_s = RENEW_S
            await client.call(NODES)
        finally:
            await client.close()
    assert seen == [("", "Bearer pod-token-1")]


async def test_the_token_file_of_a_kubeconfig_is_read_again(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    now_s = 0.0
    token = tmp_path / "token"
    token.write_text("file-token-1\n")
    cluster = {"certificate-authority": str(authority.certificate_file)}
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, user={"tokenFile": "token"}, cluster=cluster)
        client = KubeClient(KubeConfig(kubeconfig=path), clock=lambda: now_s)
        await client.open()
        try:
            await client.call(NODES)
            token.write_text("file-token-2\n")
            now_s = RENEW_S
            await client.call(NODES)
        finally:
            await client.close()
    assert [token for _, token in seen] == ["Bearer file-token-1", "Bearer file-token-2"]


async def test_a_user_may_have_a_command_that_gives_tokens(
    tmp_path: Path, authority: Authority, seen: list[tuple[str, str]]
) -> None:
    answer = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": "exec-token-1"},
    }
    said = tmp_path / "said.json"
    said.write_text(json.dumps(answer))
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(said)],
        "interactiveMode": "Never",
    }
    cluster = {"certificate-authority": str(authority.certificate_file)}
    async with tls_server(authority, seen, status=lambda _: 200) as url:
        path = kubeconfig(tmp_path, url, user={"exec": command}, cluster=cluster)
        await call(KubeConfig(kubeconfig=path))
    assert seen == [("", "Bearer exec-token-1")]


def written(folder: Path, **changes: Any) -> Path:
    """A kubeconfig with parts of its document replaced."""
    path = kubeconfig(folder, "https://127.0.0.1:1", user={"token": "secret-token-2"})
    document = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(document))
    return path


def _cluster(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "c", "cluster": fields}]


def _user(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "u", "user": fields}]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"current-context": "elsewhere"}, "elsewhere"),
        ({"current-context": None}, "current-context"),
        ({"current-context": "hera"}, "did you mean here?"),
        ({"contexts": []}, "here"),
        ({"contexts": None}, "contexts"),
        ({"clusters": []}, "no cluster 'c'"),
        ({"clusters": 7}, "clusters"),
        ({"users": [{"name": "v", "user": {}}]}, "no user 'u'"),
        ({"clusters": _cluster()}, "server"),
        ({"clusters": _cluster(server="127.0.0.1:6443")}, "https://HOST:PORT"),
        ({"clusters": _cluster(server="https://h", **{"certificate-authority": "no"})}, "no"),
        (
            {"clusters": _cluster(server="https://h", **{"certificate-authority-data": "%"})},
            "certificate-authority-data",
        ),
        (
            {"clusters": _cluster(server="https://h", **{"certificate-authority-data": "AAAA"})},
            "PEM",
        ),
        (
            {"clusters": _cluster(server="https://h", **{"certificate-authority-data": "Cg=="})},
            "the authority is empty",
        ),
        ({"clusters": _cluster(server="https://h", **{"proxy-url": "socks5://h"})}, "proxy-url"),
        ({"users": _user(**{"client-certificate-data": "AAAA"})}, "client-key"),
        ({"users": _user(tokenFile="/nowhere/token")}, "tokenFile"),
        ({"users": _user(token="secret-token-2 and more")}, "token"),
        ({"users": _user(exec={"command": "/nowhere"})}, "apiVersion"),
        ({"users": _user(exec={"command": "/no", "apiVersion": "v1"})}, "FileNotFoundError"),
        ({"users": _user(exec={"command": "false", "apiVersion": "v1"})}, "returned 1"),
        ({"users": _user(**{"auth-provider": {"name": "oidc"}})}, "user"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_refused_by_field_value_and_fix(
    tmp_path: Path, changes: dict[str, Any], part: str
) -> None:
    path = written(tmp_path, **changes)
    client = KubeClient(KubeConfig(kubeconfig=path))
    with pytest.raises(BadInputError) as raised:
        await client.open()
    await client.close()
    refusal = raised.value.refusal
    assert str(path) in refusal.where
    assert part in str(refusal)
    assert refusal.fix
    assert "secret-token-2" not in str(refusal)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: [", b"- 1", b"", b"&a [*a]", b"a: !!x 1"])
async def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match="--kubeconfig"):
        await KubeClient(KubeConfig(kubeconfig=path)).open()


async def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="does not exist"):
        await KubeClient(KubeConfig(kubeconfig=tmp_path / "no")).open()


def test_the_library_is_not_imported_before_a_user_needs_it() -> None:
    """It takes 40 MiB, also of masters without Kubernetes."""
    program = "import sys, master.app; sys.exit('kubernetes_asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
