"""The answer to one AdmissionReview of `admission.k8s.io/v1`; pure.

A body that is not a review is an HTTP error, and the configuration's `failurePolicy` decides what
API servers do then. The same holds for a review that depends on groups that are not known yet. An
object of an unexpected kind is allowed with a warning: the configuration selects too much.

Source: kubernetes.io, "Dynamic Admission Control", webhook request and response.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import orjson

from master.admission.metrics import REFUSED
from topo.gangs.admission.jobs import admit_job, admit_relayed
from topo.gangs.admission.outcome import AdmissionOutcome, Result, Rules
from topo.gangs.admission.pod_group import admit_pod_group
from topo.gangs.admission.pods import admit_pod
from topo.gangs.admission.restarts import judge_change, judge_opening, judge_scale
from topo.gangs.admission.restored import restore_stamps
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.json_patch import fits, mapping, mappings, text
from topo.model.errors import BadInputError, Refusal

REVIEW = ("admission.k8s.io/v1", "AdmissionReview")
SCALE = ("autoscaling", "v1", "Scale")
MAX_UID_CHARS = 128
MAX_WARNING_CHARS = 400
"""Source: the same page: 256 characters, or a few more where they are needed."""
_TOKEN_CHARS, _LONG_TOKEN_CHARS = 10, 32
"""The name of a PodGroup is short; lone pods are many, and no two may have one name."""
_MISSHAPEN = "a field has another type than its schema gives it, so no groups are planned for it"
Invalid = Literal["warn", "deny"]
Judge = Callable[[Mapping[str, Any], Rules], AdmissionOutcome]

_POD = ("", "v1", "Pod")
_JUDGES: Mapping[tuple[str, str, str], tuple[str, Judge]] = {
    _POD: ("pod", admit_pod),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup"): ("pod-group", admit_pod_group),
}


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The answer, and the kind and result to count; `answer` is empty if none is possible yet.

    `is_awaited`: it names an object that is not known, and is worth another look.
    """

    answer: bytes
    kind: str
    result: str
    is_awaited: bool = False


def review(content: bytes, rules: Rules, invalid: Invalid) -> Reviewed:
    """Return the answer to a review. Raises `BadInputError` if the body is not a review."""
    request = _request(content)
    uid = str(request["uid"])
    kind, created = mappings(request, "kind", "object")
    judged = _judge(request, *(text(kind.get(each)) for each in ("group", "version", "kind")))
    if judged is None:
        told = "topo-master judges jobs, pods and new PodGroups alone; see its webhooks"
        return Reviewed(_answer(uid, warnings=(told,)), "other", Result.UNCHANGED.value)
    name, judge = judged
    if rules.makes_groups or rules.by_links:
        chars = _LONG_TOKEN_CHARS if rules.by_links else _TOKEN_CHARS
        rules = replace(rules, token=_token(uid)[:chars])
    outcome = judge(created, rules)
    if not fits(created, outcome.patch):
        outcome = AdmissionOutcome(Result.LEFT, warnings=(_MISSHAPEN,))
    if outcome.result is Result.UNDECIDED:
        return Reviewed(b"", name, outcome.result.value)
    is_awaited = outcome.result is Result.AWAITED
    if outcome.refusal is None:
        answer = _answer(uid, patch=outcome.patch, warnings=outcome.warnings)
        return Reviewed(answer, name, outcome.result.value, is_awaited)
    if outcome.result is Result.DENIED:
        return Reviewed(_answer(uid, refused=outcome.refusal), name, outcome.result.value)
    if invalid == "deny":
        return Reviewed(_answer(uid, refused=outcome.refusal), name, REFUSED, is_awaited)
    told = f"the job runs without groups: {outcome.refusal}"
    answer = _answer(uid, patch=outcome.patch, warnings=(told, *outcome.warnings))
    return Reviewed(answer, name, outcome.result.value, is_awaited)


def _token(uid: str) -> str:
    """Return the end of a name for what is created, which has no uid yet."""
    return hashlib.sha256(uid.encode()).hexdigest()


def _judge(
    request: Mapping[str, Any], group: str, version: str, kind: str
) -> tuple[str, Judge] | None:
    """Return the name and the judge of what is done to a kind of object; None if nobody judges."""
    operation, (before,) = request.get("operation"), mappings(request, "oldObject")
    for each in kinds.JOB_KINDS:
        if (group, version, kind) == (each.group, each.version, each.kind):
            if operation == "UPDATE":
                return each.name, partial(_judge_change, each, before)
            return (each.name, partial(_judge_job, each)) if operation == "CREATE" else None
    if (group, version, kind, operation) == (*SCALE, "UPDATE"):
        return _scale_judge(request)
    if (group, version, kind, operation) == (*_POD, "UPDATE"):
        return "pod", partial(judge_opening, before)
    return _JUDGES.get((group, version, kind)) if operation == "CREATE" else None


def _scale_judge(request: Mapping[str, Any]) -> tuple[str, Judge] | None:
    """Return the judge of a change of a job's subresource `scale`; None for other resources."""
    before, resource = mappings(request, "oldObject", "resource")
    scaled = (resource.get("group"), resource.get("resource"))
    for each in kinds.JOB_KINDS:
        if each.suspended_at and (each.group, each.resource) == scaled:
            return each.name, partial(judge_scale, before, each)
    return None


def _judge_change(
    kind: JobKind, before: Mapping[str, Any], job: Mapping[str, Any], rules: Rules
) -> AdmissionOutcome:
    if kind.suspended_at and (found := judge_change(before, job, kind, rules)) is not None:
        return found
    return restore_stamps(before, job, kind.parts, rules.keys)


def _judge_job(kind: JobKind, job: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    if kind.relay is not None:
        return admit_relayed(job, kind.parts(job), kind.relay, rules)
    return admit_job(job, kind.parts(job), rules)


def _request(content: bytes) -> Mapping[str, Any]:
    try:
        document = mapping(orjson.loads(content))
    except orjson.JSONDecodeError as error:
        raise _no_review(f"the body is no JSON: {error}") from None
    if (document.get("apiVersion"), document.get("kind")) != REVIEW:
        raise _no_review("the body is no AdmissionReview of admission.k8s.io/v1")
    request = mapping(document.get("request"))
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID_CHARS:
        raise _no_review("the review has no request with a uid")
    return request


def _no_review(what: str) -> BadInputError:
    fix = "send what an API server sends to a webhook with admissionReviewVersions: [v1]"
    return BadInputError(Refusal(what, "body", fix))


def _answer(
    uid: str,
    *,
    patch: tuple[Mapping[str, Any], ...] = (),
    warnings: tuple[str, ...] = (),
    refused: Refusal | None = None,
) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": refused is None}
    if refused is not None:
        response["status"] = {"code": 422, "reason": "Invalid", "message": str(refused)}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    if warnings:
        response["warnings"] = [_line(text) for text in warnings]
    version, kind = REVIEW
    return orjson.dumps({"apiVersion": version, "kind": kind, "response": response})


def _line(text: str) -> str:
    """Return the text as one line of printable ASCII, since it becomes an HTTP header."""
    shown = text[:MAX_WARNING_CHARS]
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in shown)
