"""The suspicion of a node as a document: its links with their evidence, and its quarantine."""

from math import inf

from topo.discovery.suspicion.machine import Suspicions
from topo.discovery.suspicion.record import LinkRecord, decayed
from topo.model.ids import NodeName, natural_key
from topo.model.rest.topology import LinkSuspicionDocument, NodeSuspicionDocument


def suspicion_document(
    suspicions: Suspicions, node: NodeName, now_s: float
) -> NodeSuspicionDocument:
    """Return it, empty where there is nothing; `now_s` is on the clock of the suspicions."""
    quarantine = suspicions.quarantine(node)
    known = sorted(suspicions.links(node).items(), key=lambda each: natural_key(each[0]))
    return {
        "node": node,
        "quarantine": None if quarantine is None else quarantine.reason,
        "quarantine_age_s": None if quarantine is None else round(now_s - quarantine.at_s, 1),
        "links": [
            _link(name, record, now_s)
            for name, record in known
            if record.evidence or record.is_suspected
        ],
    }


def _link(name: str, record: LinkRecord, now_s: float) -> LinkSuspicionDocument:
    until_s = record.next_s if record.is_named else inf
    return {
        "link": name,
        "suspected": record.is_suspected,
        "score": round(decayed(record.score, now_s - record.at_s), 2),
        "times": record.times,
        "confirmed": record.confirmed,
        "lifted_in_s": None if until_s == inf else round(max(0.0, until_s - now_s), 1),
        "evidence": [
            {
                "kind": each.kind,
                "count": each.count,
                "first_age_s": round(now_s - each.first_s, 1),
                "last_age_s": round(now_s - each.last_s, 1),
            }
            for each in record.evidence.values()
        ],
    }
