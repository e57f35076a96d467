"""Conditions of sources: codes of their `warnings`, and what the doctor says of them."""

from topo.model.conditions.condition import Condition, Row, Severity

_NOTE = Severity.NOTE


class ReportCondition(Condition):
    """Why reports of workers are refused."""

    UNKNOWN_TOKEN = Row(
        "unknown-worker-token",
        "reports with a token that is in no file are refused",
        "give each worker, in its --token-file, a token of the master's "
        "--worker-token-file; both files are read again when they change",
    )
    NO_TOKENS = Row(
        "no-worker-tokens",
        "all reports are refused: there are no tokens",
        "start the master with --worker-token-file: a line per node, its name and its token",
    )
    NO_ACCOUNT = Row(
        "no-service-account",
        "reports whose token is in no file and of no service account are refused",
        "project the token of the pod's service account (audience "
        "topo-master), or give the worker one of --worker-token-file",
    )
    WRONG_AUDIENCE = Row(
        "wrong-audience",
        "reports with a service-account token for another audience are refused",
        "project the worker's token with the audience topo-master",
    )
    WRONG_ACCOUNT = Row(
        "wrong-service-account",
        "reports of pods of another service account are refused",
        "run the workers as the account that the text names",
    )
    TOKEN_WITHOUT_NODE = Row(
        "token-without-node",
        "reports with a service-account token that names no node are refused",
        "Kubernetes 1.30 and later put the node into it; with an older one use --worker-token-file",
    )
    TOKEN_REFUSED = Row(
        "token-refused",
        "Kubernetes refuses the tokens of these reports",
        "see whether the pod is gone, its token has expired, or it is of another cluster",
    )
    TOO_MANY_REFUSED = Row(
        "too-many-refused-tokens",
        "an address sent so many refused tokens that its new ones are not asked about",
        "mend or stop what sends wrong tokens from there",
    )
    TOKEN_NOT_REVIEWED = Row(
        "token-not-reviewed",
        "new workers wait: Kubernetes cannot be asked whose tokens they have",
        "see the text: the API server has to answer, and the master may create tokenreviews",
    )
    MALFORMED = Row(
        "malformed-report",
        "reports that cannot be read are refused",
        "run workers of the master's release",
    )
    TOO_MANY_NODES = Row(
        "too-many-nodes",
        "reports of nodes beyond 20,000 are refused",
        "give each node a token of its own: with a shared one, reports can be for nodes that "
        "do not exist",
    )
    BAD_NODE_NAME = Row(
        "bad-node-name",
        "reports under a name that no node can have are refused",
        "give the worker a --node-name of letters, digits, dots and dashes",
    )
    UNNAMED_SWEEPER = Row(
        "unnamed-sweeper",
        "dumps of the fabric from hosts that are not named for it are refused",
        "name the node in --fabric-sweep-nodes if it is to say what the fabric is, else stop its "
        "topo-worker --sweep-interval; each such node needs a token of its own",
    )


class SourceCondition(Condition):
    """Why a source does not answer, or what of its answer is doubted."""

    WAITING = Row("source-waiting", "it has not answered since the master started")
    FAILING = Row("source-failing", "it fails; its last answer stays")
    OLD = Row("source-old", "its last good answer is older than two minutes")
    DOUBTFUL_CONFIG = Row(
        "doubtful-config",
        "the config file has what is probably a slip",
        "if it is a slip, correct nodegroup.yaml; it is read again at once",
        _NOTE,
    )
    DOUBTFUL_FABRIC = Row(
        "doubtful-fabric",
        "dumps of the fabric lack something or are not renewed, or a leaf switch stands alone",
        "run ibnetdiscover again on a host of that subnet, or see to the topo-worker that does; a "
        "leaf without uplinks needs a dump of its own hosts",
        _NOTE,
    )
    WEAK_TRUNKS = Row(
        "fabric-trunks-weak",
        "cables between switches of the fabric are missing or slower than those beside them",
        "look at the named switches: is a port down, a plug loose, a cable or transceiver bad?",
        _NOTE,
    )
    DOUBTFUL_INVENTORY = Row(
        "doubtful-inventory",
        "the manager's inventory has what is probably a slip",
        "if it is a slip, correct the cluster manager, or map the kind in "
        "--cluster-manager-mapping-file",
        _NOTE,
    )
    SEVERAL_FAMILIES = Row(
        "several-label-families",
        "nodes have group labels of several writers; one family is followed",
        "if it is the wrong one, name the right one in --group-labels; remove labels that "
        "nobody writes any more",
        _NOTE,
    )
    DOUBTFUL_OBJECT = Row(
        "doubtful-object",
        "a node or pod of Kubernetes states what cannot be followed: two pools, no quantity, "
        "the hold of others",
        "correct what it names: a label, a taint, a quantity or an annotation",
        _NOTE,
    )
