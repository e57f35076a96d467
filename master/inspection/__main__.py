"""`python -m master.inspection`: prints the state of a cluster as JSON, for `topo doctor`.

Exit code 0 with a document on standard output; 2 where no API server can be reached, with what,
where and fix as JSON on standard error.
"""

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from topo.kit.process.extras import needs

with needs("master"):
    import orjson

    from master.inspection.cluster import Inspection
    from master.kube.client import Call, connect
    from master.kube.credentials.config import KubeConfig
    from master.kube.errors import KubeError
    from topo.model.rest.cluster import ClusterDocument
from topo.model.errors import BadInputError, Refusal


def main(argv: Sequence[str] | None = None) -> int:
    """Inspect once; return the exit code."""
    parser = ArgumentParser(prog="python -m master.inspection", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="else the service account of this pod")
    parser.add_argument("--namespace", default="", help="of the master; else it is looked for")
    given = parser.parse_args(argv)
    try:
        document = asyncio.run(_look(KubeConfig(kubeconfig=given.kubeconfig), given.namespace))
    except BadInputError as error:
        return _refused(error.refusal)
    except KubeError as error:
        fix = "is it this cluster's kubeconfig, and may its user ask? try it with kubectl"
        return _refused(Refusal(error.message, str(given.kubeconfig or "this pod"), fix))
    sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
    return 0


def _refused(refusal: Refusal) -> int:
    sys.stderr.buffer.write(orjson.dumps(refusal) + b"\n")
    return 2


async def _look(config: KubeConfig, namespace: str) -> ClusterDocument:
    client = await connect(config)
    try:
        await client.call(Call(method="GET", path="/version"))
        return await Inspection(client, namespace).inspect()
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
