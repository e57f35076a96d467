"""The webhook configuration of the chart, and whether API servers go by it."""

from tests.e2e.controlplane.client import Api

NAME = "topo-master-admission"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


async def is_trusted(api: Api) -> bool:
    """Whether API servers verify the webhook by some authority."""
    webhooks = (await api.get(f"{CONFIGURATIONS}/{NAME}"))["webhooks"]
    return all(each["clientConfig"].get("caBundle") for each in webhooks)
