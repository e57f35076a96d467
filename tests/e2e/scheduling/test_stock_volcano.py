"""What the vendor's sample becomes on stock Volcano, without a hand of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Api
from tests.support.waiting import eventually

VENDOR = Path(__file__).parent / "vendor"
SAMPLE = yaml.safe_load((VENDOR / "sample-volcano-supernode.yaml").read_text())
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"


async def _nodes(api: Api) -> Mapping[str, str]:
    """Where each pod that runs is."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in await api.items(PODS)
        if pod["status"]["phase"] == "Running"
    }


async def test_the_vendors_sample_and_configuration_run_with_a_plugin_that_volcano_has_not(
    api: Api,
) -> None:
    made: Any = await api.create(JOBS, SAMPLE)
    assert made["spec"]["minAvailable"] == 8, "Volcano's own webhook has seen it"

    async def all_run() -> bool:
        return len(await _nodes(api)) == 8

    await eventually(all_run)
    assert len(set((await _nodes(api)).values())) == 8
