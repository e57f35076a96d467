"""What a kubeconfig file says of its current context.

The only importer of kubernetes_asyncio, which knows how the users of such files authenticate:
tokens, files of tokens, commands, OpenID Connect. It is imported when a file is read: its models
take 40 MiB that nobody else needs.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import yaml
from yarl import URL

from master.kube.access import Access, Credentials, read_pem, tls_context
from topo.kit.files import read_bounded
from topo.kit.secrets import as_token
from topo.kit.threads import off_loop
from topo.model.errors import BadInputError, Refusal

MAX_KUBECONFIG_BYTES = 1 << 20
_EXEC_S = 30.0

_log = structlog.get_logger(__name__)


async def access_of_file(path: Path, clock: Callable[[], float]) -> Access:
    """What the file says. Raises `BadInputError` that names field, value and fix."""
    document = await off_loop(partial(_document, path))
    file = _Kubeconfig(path, document)
    loaded = await file.loaded()
    server = _server(loaded.host, file.where("server"))
    verify = bool(loaded.verify_ssl)
    if not verify and server.scheme == "https":
        _log.warning("the API server's certificate is not verified", kubeconfig=str(path))

    async def read() -> str | None:
        key = (await file.loaded()).api_key.get("BearerToken")
        if key is None:
            return None
        scheme, _, token = key.partition(" ")
        return f"{scheme} {as_token(token.strip(), path)}"

    return Access(
        server=server,
        tls=partial(
            tls_context,
            partial(file.content, file.cluster, "certificate-authority"),
            pair=partial(_client_pair, file),
            verify=verify,
        ),
        credentials=Credentials(read, clock),
        server_name=loaded.tls_server_name,
        proxy=URL(loaded.proxy) if loaded.proxy else None,
    )


def _server(text: str, where: str) -> URL:
    with suppress(ValueError):
        url = URL(text)
        if url.scheme in {"http", "https"} and url.host and url.user is None:
            return url
    what = "the address of the API server is no URL of http or https"
    raise BadInputError(Refusal(what, where, "write https://HOST:PORT"))


def _document(path: Path) -> dict[str, Any]:
    content = read_bounded(path, MAX_KUBECONFIG_BYTES)
    if isinstance(content, Refusal):
        fix = f"{content.fix}; or correct --kubeconfig"
        raise BadInputError(Refusal(content.what, f"--kubeconfig {content.where}", fix))
    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" line {mark.line + 1}" if mark else ""
        raise _unusable(path, f"it is no YAML{at}") from error
    if not isinstance(document, dict):
        raise _unusable(path, "it is no mapping with clusters, users and contexts")
    return document


def _unusable(path: Path, why: str) -> BadInputError:
    fix = "give the file that kubectl works with; `kubectl config view --minify` shows its parts"
    return BadInputError(
        Refusal(f"the kubeconfig cannot be used: {why}", f"--kubeconfig {path}", fix)
    )


_OURS = ("certificate-authority", "client-certificate", "client-key")
"""Files that we read: the library would copy private keys to files that stay until the end."""


class _Kubeconfig:
    """The current context of one file."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        from kubernetes_asyncio.config import kube_config  # noqa: PLC0415 - see the module's text

        self._path = path
        self.cluster: Mapping[str, Any] = {}
        self.user: Mapping[str, Any] = {}
        lists = {name: _named(document.get(name)) for name in ("contexts", "clusters", "users")}
        context = _part(lists["contexts"], document.get("current-context"), "context")
        self.cluster = _part(lists["clusters"], context.get("cluster"), "cluster")
        self.user = _part(lists["users"], context.get("user"), "user")
        known = self._without_files(document)
        try:
            node = kube_config.ConfigNode("kubeconfig", known, str(path))
            self._loader = kube_config.KubeConfigLoader(node, config_base_path=None)
        except Exception as error:
            raise _unusable(path, _reason(error)) from error

    def _without_files(self, document: dict[str, Any]) -> dict[str, Any]:
        result = dict(document)
        for plural, one in (("clusters", "cluster"), ("users", "user")):
            result[plural] = [
                {**item, one: {k: v for k, v in _dict(item.get(one)).items() if not _is_ours(k)}}
                for item in _dicts(document.get(plural))
            ]
        return result

    async def loaded(self) -> Any:
        """The library's configuration, with a fresh token. Raises `BadInputError`."""
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 - see above

        configuration = Configuration()
        try:
            async with asyncio.timeout(_EXEC_S):
                await self._loader.load_and_set(configuration)
        except Exception as error:
            raise _unusable(self._path, _reason(error)) from error
        return configuration

    def where(self, name: str) -> str:
        """A field of the file, for people."""
        return f"--kubeconfig {self._path}: {name}"

    def content(self, part: Mapping[str, Any], name: str) -> bytes | None:
        """What the field or the file that it names holds; None where there is neither.

        Raises `BadInputError`.
        """
        data, file = part.get(f"{name}-data"), part.get(name)
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                what = "the field is no base64"
                fix = "write the file's content as base64, in one line"
                raise BadInputError(Refusal(what, self.where(f"{name}-data"), fix)) from error
        return read_pem(self._path.parent / str(file), self.where(name)) if file else None


def _is_ours(name: str) -> bool:
    return name.removesuffix("-data") in _OURS


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _named(value: Any) -> dict[str, dict[str, Any]]:
    return {str(item.get("name")): item for item in _dicts(value)}


def _part(named: Mapping[str, dict[str, Any]], name: Any, kind: str) -> dict[str, Any]:
    return _dict(named.get(str(name), {}).get(kind))


def _reason(error: Exception) -> str:
    """The library's words where they are meant for people; others may hold parts of a secret."""
    from kubernetes_asyncio.config import ConfigException  # noqa: PLC0415 - see above

    if isinstance(error, TimeoutError):
        return f"the user's command or server did not answer in {_EXEC_S:.0f} s"
    return str(error) if isinstance(error, ConfigException) else type(error).__name__


def _client_pair(file: _Kubeconfig) -> tuple[bytes, bytes] | None:
    certificate = file.content(file.user, "client-certificate")
    key = file.content(file.user, "client-key")
    if certificate is None or key is None:
        if certificate is key:
            return None
        missing = "client-key" if key is None else "client-certificate"
        what = f"a client certificate needs its key, and there is no {missing}"
        raise BadInputError(Refusal(what, file.where(missing), "give both"))
    return certificate, key
