"""Reviews as an API server sends them, and what their answers say."""

import base64
from collections.abc import Mapping
from typing import Any

import orjson

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def asked(found: Mapping[str, Any], **request: object) -> bytes:
    """The review of an object that is to be created."""
    group, _, version = found["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": found["kind"]}
    body = {"uid": UID, "kind": kind, "operation": "CREATE", "object": found, **request}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body}
    return orjson.dumps(review)


def response(answer: bytes) -> dict[str, Any]:
    """The response of a review's answer, its patch as a list."""
    document = orjson.loads(answer)
    assert document["apiVersion"] == "admission.k8s.io/v1"
    assert document["kind"] == "AdmissionReview"
    found: dict[str, Any] = document["response"]
    assert found["uid"] == UID
    if "patch" in found:
        assert found["patchType"] == "JSONPatch"
        found["patch"] = orjson.loads(base64.b64decode(found["patch"]))
    return found
