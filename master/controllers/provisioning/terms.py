"""What a request asks for, from its PodTemplates as the cluster has them now."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Protocol

from master.kube.eligibility import with_eligibility
from master.kube.gang_pod import NodeWants, node_wants
from master.kube.objects import NodeObject
from master.kube.schedulers.provisioning import KnownTemplate
from master.kube.schedulers.template_gpus import TemplateGpus, template_gpus
from master.kube.store import Store
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.errors import Refusal
from topo.model.pod_requests import most_of, others_requested
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility
from topo.provisioning.course import ProvisioningRequest
from topo.provisioning.terms import Awaited, NothingToBook, TemplatePods, Terms, read_request


class RequestReader(Protocol):
    """Says what requests of one kind ask for."""

    def read(
        self, request: ProvisioningRequest, eligible: dict[NodeWants, Eligibility] | None = None
    ) -> Terms | Refusal | Awaited | NothingToBook:
        """Return what a request asks for; `eligible` is for several requests of one moment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsReader:
    """Reads requests under the settings of one master."""

    templates: Store[KnownTemplate]
    nodes: Callable[[], Iterable[NodeObject]]
    keys: AnnotationKeys
    policy: Policy

    def read(
        self, request: ProvisioningRequest, eligible: dict[NodeWants, Eligibility] | None = None
    ) -> Terms | Refusal | Awaited:
        """Return what a request asks for; O(its templates), with an affinity O(nodes).

        `eligible`: which nodes pods may use, added to; for several requests of one moment.
        """
        found: list[tuple[KnownTemplate, TemplatePods]] = []
        resources: list[str] = []
        for name, pods in request.pod_sets:
            template = self.templates.objects.get((request.namespace, name))
            if template is None:
                return Awaited(f"its PodTemplate {name} is not there")
            resource, gpus, _ = self.gpus_of(template)
            resources.append(resource)
            found.append((template, TemplatePods(name, pods, gpus, template.annotations)))
        asked = read_request(dict(request.parameters), [each for _, each in found], self.keys)
        if isinstance(asked, Refusal):
            return asked
        using = [(template, each) for template, each in found if each.gpus]
        wants = dict(enumerate(self._wants(using)))
        found_nodes = with_eligibility(asked, wants, self.nodes, "", known=eligible)
        cards = (*self.policy.gpu_resources, *self.policy.shared_resources)
        takes = (others_requested(template.spec, cards) for template, _ in using)
        return Terms(found_nodes, most_of(takes), next(filter(None, resources), ""))

    def gpus_of(self, found: KnownTemplate) -> TemplateGpus:
        """Return the whole GPUs of each pod of a template; O(containers)."""
        return template_gpus(found.spec, found.annotations, self.policy.gpu_resources, self.keys)

    def _wants(self, using: Iterable[tuple[KnownTemplate, TemplatePods]]) -> Iterator[NodeWants]:
        """Yield what each pod requires of its node, by rank."""
        for template, each in using:
            wants = node_wants(template.spec, self.policy.usage_key)
            selector = dict(wants.selector) | dict(template.selector)
            wants = replace(
                wants,
                selector=tuple(sorted(selector.items())),
                tolerations=wants.tolerations | template.tolerations,
            )
            yield from repeat(wants, each.pods)
