"""What ResourceQuotas leave a namespace of its GPUs."""

from typing import Any

import orjson
import pytest

from master.kube.decoding import decode
from master.kube.objects import QuotaObject
from master.kube.schedulers.gpu_quotas import gpu_quota

GPU, OTHER = "metax-tech.com/gpu", "nvidia.com/gpu"


def quota(
    hard: dict[str, str], used: dict[str, str] | None, *, namespace: str = "jobs", **spec: Any
) -> QuotaObject:
    status = {} if used is None else {"hard": hard, "used": used}
    document = {
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": hard, **spec},
        "status": status,
    }
    return decode(QuotaObject, orjson.dumps(document))


@pytest.mark.parametrize(
    ("hard", "used", "left"),
    [
        ({f"requests.{GPU}": "64"}, {f"requests.{GPU}": "8"}, 56),
        ({f"limits.{GPU}": "64"}, {f"limits.{GPU}": "8"}, 56),
        ({GPU: "64"}, {GPU: "8"}, 56),
        ({f"requests.{GPU}": "8"}, {f"requests.{GPU}": "16"}, 0),
        ({f"requests.{GPU}": "64"}, None, 0),  # nobody has counted yet
        ({f"requests.{GPU}": "many"}, {f"requests.{GPU}": "8"}, 0),
        ({f"requests.{OTHER}": "64"}, {f"requests.{OTHER}": "8"}, None),
        ({"pods": "4"}, {"pods": "1"}, None),
    ],
)
def test_what_is_left_is_hard_less_used_and_never_below_nothing(
    hard: dict[str, str], used: dict[str, str] | None, left: int | None
) -> None:
    found = gpu_quota([quota(hard, used)], "jobs", [GPU])
    assert (found.gpus if found is not None else None) == left


def test_of_several_quotas_the_one_that_leaves_least_counts_and_those_of_others_do_not() -> None:
    key = f"requests.{GPU}"
    found = [
        quota({key: "64"}, {key: "8"}),
        quota({key: "32"}, {key: "8"}),
        quota({key: "0"}, {key: "0"}, namespace="others"),
        quota({key: "0"}, {key: "0"}, scopes=["BestEffort"]),
    ]
    limit = gpu_quota(found, "jobs", [GPU])
    assert limit is not None
    assert limit.gpus == 24
    assert limit.source == f"ResourceQuota jobs/gpus: {key} 8 of 32 used"
