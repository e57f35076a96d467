"""Access from the current context of a kubeconfig file. Fields: Kubernetes v1.36,
`client.config/v1`.

The only importer of kubernetes_asyncio, which supports users with a command or a token provider. It
is imported for those alone: its models take 40 MiB.
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

from master.kube.credentials.access import Access, Credentials, read_pem, tls_context
from topo.kit.files import read_bounded
from topo.kit.secrets import as_token, read_token
from topo.kit.threads import off_loop
from topo.model.errors import BadInputError, Refusal
from topo.model.nearest import did_you_mean

MAX_KUBECONFIG_BYTES = 1 << 20
_PROVIDER_S = 30.0
_PROVIDERS = ("exec", "auth-provider")

_log = structlog.get_logger(__name__)


async def access_of_file(path: Path, clock: Callable[[], float]) -> Access:
    """Return the access that a file configures. Raises `BadInputError` with field,
    value and fix.
    """
    context = await off_loop(partial(CurrentContext.read, path))
    verify = context.cluster.get("insecure-skip-tls-verify") is not True
    server = context.url("server", ("http", "https"))
    if not verify:
        _log.warning("the API server's certificate is not verified", kubeconfig=str(path))
    name = context.cluster.get("tls-server-name")
    return Access(
        server=server,
        tls=partial(
            tls_context,
            partial(context.content, context.cluster, "certificate-authority"),
            where=context.where("certificates"),
            pair=context.client_pair,
            verify=verify,
        ),
        credentials=Credentials(context.authorization(), clock),
        server_name=str(name) if name else None,
        proxy=context.url("proxy-url", ("http",)) if context.cluster.get("proxy-url") else None,
    )


class CurrentContext:
    """The cluster and the user of a file's current context."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self._path = path
        self._document = document
        name = document.get("current-context")
        if not name:
            raise self._refused("there is no current context", "current-context", "name one")
        self._context = self._named("context", name)
        self.cluster = self._named("cluster", self._context.get("cluster"))
        user = self._context.get("user")
        self.user = self._named("user", user) if user else {}

    @classmethod
    def read(cls, path: Path) -> "CurrentContext":
        """Read the file. Raises `BadInputError`."""
        content = read_bounded(path, MAX_KUBECONFIG_BYTES)
        if isinstance(content, Refusal):
            fix = f"{content.fix}, --kubeconfig"
            raise BadInputError(Refusal(content.what, f"--kubeconfig {content.where}", fix))
        what, line = "the file is no mapping", ""
        try:
            document = yaml.safe_load(content)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            document, what = None, "the file is no YAML"
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark else ""
        if not isinstance(document, dict):
            fix = "give the file that kubectl works with"
            raise BadInputError(Refusal(what, f"--kubeconfig {path}{line}", fix))
        return cls(path, document)

    def where(self, field: str) -> str:
        """Return the name of a field as error messages show it."""
        return f"--kubeconfig {self._path}: {field}"

    def _refused(self, what: str, field: str, fix: str) -> BadInputError:
        return BadInputError(Refusal(what, self.where(field), fix))

    def _named(self, kind: str, name: object) -> Mapping[str, Any]:
        """Return the cluster, user or context of that name."""
        listed = self._document.get(f"{kind}s")
        items = [x for x in listed if isinstance(x, dict)] if isinstance(listed, list) else []
        for item in items:
            if item.get("name") == name and isinstance(found := item.get(kind), dict):
                return found
        names = [str(item.get("name")) for item in items]
        fix = did_you_mean(str(name), names, f"there are: {', '.join(names) or 'none'}")
        raise self._refused(f"there is no {kind} {name!r}", f"{kind}s", fix)

    def url(self, field: str, schemes: tuple[str, ...]) -> URL:
        """Return an address of the cluster. Raises `BadInputError`."""
        with suppress(ValueError):
            url = URL(str(self.cluster.get(field, "")))
            if url.scheme in schemes and url.host and url.user is None:
                return url
        what = f"this is no URL of {' or '.join(schemes)} without a user"
        raise self._refused(what, f"cluster.{field}", f"write {schemes[-1]}://HOST:PORT")

    def content(self, part: Mapping[str, Any], field: str) -> bytes | None:
        """Return the content of the field or of the file that it names; None if neither is set.

        Raises `BadInputError`.
        """
        data, file = part.get(f"{field}-data"), part.get(field)
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                fix = "write the content of the file as base64, in one line"
                raise self._refused("this is no base64", f"{field}-data", fix) from error
        return read_pem(self._file(file), self.where(field)) if file else None

    def client_pair(self) -> tuple[bytes, bytes] | None:
        """Return the user's certificate and key, None without them. Raises `BadInputError`."""
        certificate = self.content(self.user, "client-certificate")
        key = self.content(self.user, "client-key")
        if certificate is None or key is None:
            if certificate is key:
                return None
            missing = "client-key" if key is None else "client-certificate"
            raise self._refused("one of certificate and key is missing", missing, "give both")
        return certificate, key

    def _file(self, name: object) -> Path:
        return self._path.parent / str(name)

    def authorization(self) -> Callable[[], Any]:
        """Return the function that reads the user's `Authorization` header, None without one."""
        if any(provider in self.user for provider in _PROVIDERS):
            return _Provider(self._path, self._minimal(), self.where("user")).header
        return self._header

    async def _header(self) -> str | None:
        """Return the header; a token file comes before a token, as in client-go."""
        user = self.user
        if file := user.get("tokenFile"):
            return f"Bearer {await off_loop(partial(self._token_of, self._file(file)))}"
        if token := user.get("token"):
            return f"Bearer {as_token(str(token), self._path)}"
        if "username" in user and "password" in user:
            pair = f"{user['username']}:{user['password']}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return None

    def _token_of(self, file: Path) -> str:
        try:
            return read_token(file)
        except BadInputError as error:
            refusal = error.refusal
            where = f"user.tokenFile, {refusal.where}"
            raise self._refused(refusal.what, where, refusal.fix) from error

    def _minimal(self) -> dict[str, Any]:
        """Return this context without keys, because the library would write them to the disk."""
        providers = {name: self.user[name] for name in _PROVIDERS if name in self.user}
        return {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.cluster.get("server")}}],
            "users": [{"name": "c", "user": providers}],
        }


class _Provider:
    """A user's command or token provider, which the library calls when a token expires."""

    def __init__(self, path: Path, document: dict[str, Any], where: str) -> None:
        from kubernetes_asyncio.config import kube_config  # noqa: PLC0415 - see the module's text

        self._where = where
        node = kube_config.ConfigNode("kubeconfig", document, str(path))
        self._loader = kube_config.KubeConfigLoader(node, config_base_path=None)

    async def header(self) -> str:
        """Return the header with a valid token. Raises `BadInputError`."""
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415 - see above
        from kubernetes_asyncio.config import ConfigException  # noqa: PLC0415 - see above

        configuration, what = Configuration(), "it gives no token"
        try:
            async with asyncio.timeout(_PROVIDER_S):
                await self._loader.load_and_set(configuration)
        except TimeoutError:
            what = f"it gives no token within {_PROVIDER_S:.0f} s"
        except ConfigException as error:
            what = str(error)
        except Exception as error:  # noqa: BLE001 - plugins of people raise what they like
            what = f"it fails: {type(error).__name__}"  # its text may hold what it printed
        header = configuration.api_key.get("BearerToken")
        if header is None:
            fix = "try the command of this user by hand, or give a token"
            raise BadInputError(Refusal(what[:500], self._where, fix))
        return str(header)
