"""Every name that gangs have on objects of Kubernetes, from one domain.

A user writes `gpu-group-size` and the words beside it on a job or on any of its pod templates. The
admission webhook stamps `gang-*` on every template and marks each pod; the controller writes where
the pods go. Names of other systems that are read here: Volcano v1.14 (`pkg/controllers/apis`,
`volcano.sh/apis/pkg/apis/batch/v1alpha1/labels.go`) and Kubernetes v1.36 (`batch/v1`).
"""

from dataclasses import dataclass

TASK_INDEX = "volcano.sh/task-index"
"""Label and annotation of a Volcano Job's pod: which pod of its task it is, from 0."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of an Indexed batch Job's pod: its rank, from 0."""
OPTED_OUT = "disabled"
"""Value of `AnnotationKeys.placement` as a label of a namespace whose jobs are left alone."""


@dataclass(frozen=True, slots=True)
class AnnotationKeys:
    """The names below one domain, such as `metax-tech.com`."""

    domain: str

    @property
    def size(self) -> str:
        """The user's annotation: GPUs of each group."""
        return f"{self.domain}/gpu-group-size"

    @property
    def mode(self) -> str:
        """The user's: `required` or `preferred`."""
        return f"{self.domain}/gpu-group-mode"

    @property
    def within(self) -> str:
        """The user's: a kind of group that all of the job must share one of, such as switchbox."""
        return f"{self.domain}/gpu-group-within"

    @property
    def wait(self) -> str:
        """The user's: how long groups are required before they are preferred, such as 10m."""
        return f"{self.domain}/gpu-group-wait"

    @property
    def way(self) -> str:
        """The user's: `nomination` or `native`, who chooses the nodes."""
        return f"{self.domain}/placement-mode"

    @property
    def asked(self) -> tuple[str, ...]:
        """All of the user's."""
        return (self.size, self.mode, self.within, self.wait, self.way)

    @property
    def pods(self) -> str:
        """Stamped annotation: pods of the gang."""
        return f"{self.domain}/gang-pods"

    @property
    def rank_offset(self) -> str:
        """Stamped annotation: rank of the first pod of this template."""
        return f"{self.domain}/gang-rank-offset"

    @property
    def pods_per_group(self) -> str:
        """Stamped annotation: pods of a whole group."""
        return f"{self.domain}/gang-pods-per-group"

    @property
    def ungrouped(self) -> str:
        """Stamped annotation: why pods that ask for groups get none."""
        return f"{self.domain}/gang-ungrouped"

    @property
    def gate(self) -> str:
        """The scheduling gate of a pod that waits for its place."""
        return f"{self.domain}/placement"

    @property
    def group(self) -> str:
        """Label of a pod: its group, counted from 0 in the order of ranks."""
        return f"{self.domain}/gpu-group"

    @property
    def rank(self) -> str:
        """Annotation of a pod: its rank in the gang, from 0."""
        return f"{self.domain}/gang-rank"

    @property
    def placement(self) -> str:
        """Annotation of a placed pod: its plan. Label of a namespace: `OPTED_OUT`."""
        return f"{self.domain}/placement"

    @property
    def hold(self) -> str:
        """Annotation of a placed pod: the hold that was made for it (`Policy.hold_key`)."""
        return f"{self.domain}/hold"

    def node_label(self, gang_id: str) -> str:
        """Label of the nodes that a gang was given, and the selector of its pods; its value: 1."""
        return f"gang.{self.domain}/{gang_id}"
