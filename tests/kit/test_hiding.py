"""What looks like a secret is masked to its end, and nothing else is touched."""

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.parse import texts
from topo.kit.hiding import is_secret_name, mask_secrets
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import demo_world

FOLDER = Path(__file__).resolve().parents[2].parent / "shared/data/probes"
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file()) if FOLDER.is_dir() else []


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("HF_TOKEN=x", "HF_TOKEN=***"),
        ("MYSQL_PASSWORD=x", "MYSQL_PASSWORD=***"),
        ("MYSQL_PWD=x DB_PASS=y", "MYSQL_PWD=*** DB_PASS=***"),
        ("AWS_SECRET_ACCESS_KEY=x/y+z=", "AWS_SECRET_ACCESS_KEY=***"),
        ("client_secret=x", "client_secret=***"),
        ("train.py --token x --lr 3", "train.py --token *** --lr 3"),
        ("train.py --wandb-token=x --lr 3", "train.py --wandb-token=*** --lr 3"),
        ("curl --password x", "curl --password ***"),
        ("--token --next", "--token --next"),
        ("https://x@host/a", "https://***@host/a"),
        ("https://u:a&b@h", "https://***@h"),
        ("https://u:a@b,c@h/p?q", "https://***@h/p?q"),
        ("password=a,b c", "password=*** c"),
        ("password=a;b&c}d", "password=***"),
        ("password='a b\" c' d", "password='***' d"),
        ('{"password": "a, \\" b", "n": 1}', '{"password": "***", "n": 1}'),
        (r'{"body": "{\"token\": \"x\"}"}', r'{"body": "{\"token\": \"***\"}"}'),
        ("Authorization: Key abc,def next", "Authorization: Key *** next"),
        ("Authorization: Bearer a.b,c next", "Authorization: Bearer *** next"),
        (
            "<process_name>python --wandb-token=x</process_name>",
            "<process_name>python --wandb-token=***</process_name>",
        ),
        ("<p>run --token x</p>", "<p>run --token ***</p>"),
        ('password="x y', 'password="***'),
        ('{"a": "password=x", "b": 1}', '{"a": "password=***", "b": 1}'),
        ("password: |-\n  x\n", "password: |-\n  ***\n"),
        ("run --token \\\n  x --lr 3", "run --token \\\n  *** --lr 3"),
        ("Authorization: x next", "Authorization: ***"),
        ('Authorization: Digest a="x", b=y', "Authorization: ***"),
        ("Set-Cookie: a=x; Path=/", "Set-Cookie: ***"),
        ("http://h/p?sig=x&page=2", "http://h/p?sig=***&page=2"),
        ("http://h/p?page=2&X-Amz-Signature=x", "http://h/p?page=2&X-Amz-Signature=***"),
        ("http://h/p?token=x&page=2", "http://h/p?token=***"),
        ("Name=a;AccountKey=x/y==;Suffix=b", "Name=a;AccountKey=***"),
        ("Server=a;Uid=b;Pwd=x;Port=1", "Server=a;Uid=b;Pwd=***;Port=1"),
        ("curl -u me:x http://h", "curl -u me:*** http://h"),
        ("docker run -u 1000:1000 image", None),
        ("https_proxy=me:x@proxy:3128", "https_proxy=me:***@proxy:3128"),
        (r'{"url": "https:\/\/me:x@host"}', r'{"url": "https:\/\/***@host"}'),
        ("--token-file=/secret/token --max-tokens-per-s 5", None),
        ("mail a@b about http://h/x", None),
    ],
)
def test_a_secret_in_a_text_is_masked_to_its_end(text: str, masked: str | None) -> None:
    """Nothing of it is left over, and what stands around it stays."""
    assert mask_secrets(text) == (text if masked is None else masked)
    assert mask_secrets(mask_secrets(text)) == mask_secrets(text)


def letters(number: int) -> str:
    """So many signs of a secret's alphabet, in an order without words."""
    return "".join("aB3dE6gH9jK2mN5pQ8sT"[at * 7 % 20] for at in range(number))


BASE64 = "\n".join(letters(64) for _ in range(3))
JWT = f"eyJ{letters(33)}.eyJ{letters(60)}.{letters(43)}"
SHAPES = {
    "jwt": JWT,
    "github": "gh" + "p_" + letters(36),
    "github-app": "gh" + "o_" + letters(36),
    "github-fine": "github" + "_pat_" + letters(60),
    "gitlab": "gl" + "pat-" + letters(20),
    "slack": "xo" + "xb-" + "1234567890-" + letters(24),
    "aws": "AK" + "IA" + "ABCDEFGH23456789",
    "google": "AI" + "za" + letters(35),
    "hugging-face": "hf" + "_" + letters(34),
    "nvidia": "nv" + "api-" + letters(64),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("around", ["%s", "cannot fetch with %s", '{"x": "%s"}', "a=%s,b", "(%s)."])
def test_a_secret_of_a_known_shape_is_masked_wherever_it_stands(shape: str, around: str) -> None:
    """Nobody names it; what stands around it stays."""
    masked = mask_secrets(around % SHAPES[shape])
    assert masked in {around % "***", (around % "***").removesuffix(".")}


@pytest.mark.parametrize("label", ["PRIVATE KEY", "OPENSSH PRIVATE KEY", "CERTIFICATE"])
@pytest.mark.parametrize(
    "form", ["plain", "indented", "escaped", "cut", "crlf", "encrypted", "logged"]
)
def test_a_pem_block_is_masked_however_it_was_written(label: str, form: str) -> None:
    """With its lines escaped as in JSON, indented as in YAML, or without its end."""
    begin, end = f"-----BEGIN {label}-----", f"-----END {label}-----"
    block = f"{begin}\n{BASE64}\n{end}"
    if form == "encrypted":
        block = f"{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,00\n\n{BASE64}\n{end}"
    elif form == "cut":
        block = f"{begin}\n{BASE64}\nnext words stay"
    text = {
        "indented": "key:\n  " + block.replace("\n", "\n  "),
        "escaped": block.replace("\n", "\\n"),
        "crlf": block.replace("\n", "\r\n"),
        "logged": block.replace("\n", "\nOct 1 host: "),
    }.get(form, block)
    masked = mask_secrets(f"before {text} after")
    assert letters(64) not in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert form != "cut" or "next words stay" in masked


@example(40, "github", 0)
@given(st.integers(40, 132), st.sampled_from(sorted(SHAPES)), st.integers(0, 140))
def test_a_secret_that_was_folded_is_masked_in_every_line(
    width: int, shape: str, before: int
) -> None:
    """As a terminal, a mail or `fold` leaves it; no line is lost."""
    secret = SHAPES[shape]
    line = f"{'.' * before} --token {secret} {'.' * width}"
    folded = "\n".join(line[at : at + width] for at in range(0, len(line), width))
    masked = mask_secrets(f"first\n{folded}\nlast")
    assert not [at for at in range(len(secret) - 5) if secret[at : at + 5] in masked]
    assert masked.count("\n") == folded.count("\n") + 2
    assert masked.startswith("first\n")
    assert masked.endswith("\nlast")


@pytest.mark.parametrize("value", ["%s=%s", "user:%s%s@host", "Bearer %s%s"])
def test_a_folded_value_is_masked_by_its_name(value: str) -> None:
    """Also where its name ends a line, or the address goes on below."""
    secret = letters(70)
    name = "password" if value.startswith("%s=") else ""
    line = f"run https://{value % (name, secret)} " + "." * 100
    for width in range(40, 100):
        folded = "\n".join(line[at : at + width] for at in range(0, len(line), width))
        masked = mask_secrets(folded)
        assert not [at for at in range(len(secret) - 5) if secret[at : at + 5] in masked], masked


def test_what_only_looks_random_stays() -> None:
    """Probes are full of it: UUIDs, serial numbers, bus ids, hashes, base64."""
    text = f"""GPU-8d0c6d2f-5b1e-4f6e-9e0b-3a5f6c7d8e9f 0x1e0f86d2 00000000:1B:00.0 {letters(64)}
    sha256:{"0123456789abcdef" * 4} {letters(42)}== node-1.cluster.local:9001 me@host a:b@
    task-{letters(30)} signature of a link: key=GPU0 disk-{letters(30)} 10:20@30"""
    assert mask_secrets(text) == text
    assert mask_secrets("secretary of basic training") == "secretary of basic ***"


REPOSITORYS_OWN = {
    **{name: text for name, text in vars(texts).items() if isinstance(text, str)},
    **{f"{n.name} {p.probe}": p.text for n in demo_world().nodes for p in bundle_of(n).probes},
}


@pytest.mark.parametrize("name", REPOSITORYS_OWN)
def test_the_text_of_a_probe_stays_as_it_is(name: str) -> None:
    assert mask_secrets(REPOSITORYS_OWN[name]) == REPOSITORYS_OWN[name]


@pytest.mark.skipif(not FILES, reason="the real outputs are not beside the repository")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_real_output_stays_as_it_is(path: Path) -> None:
    """None of those that were collected has a secret in it."""
    text = path.read_text("utf-8", "replace")
    assert mask_secrets(text) == text


def test_names_of_secrets_are_known_and_places_of_secrets_are_none() -> None:
    assert all(map(is_secret_name, ("token", "apiKey", "X-Amz-Signature", "sig", "Cookie")))
    assert not any(map(is_secret_name, ("token_file", "signal", "keys", "design", "assignature")))


@pytest.mark.parametrize(
    "piece",
    [
        *("token", "://", 'token="', "password=\\", "a", "--a-", " ", "--", "a:", "?a_", "-u a:"),
        *("eyJaaaaaa.", "-----BEGIN A-----", "-----BEGIN A-----\n", "cookie:", "authorization: "),
        *("\n", "a" * 40 + "\n", "eyJ" * 14 + "\n", "token=" + "a" * 40 + "\n", "x@", "\\\n"),
    ],
)
def test_masking_takes_time_in_proportion(piece: str) -> None:
    """Under a second of this thread's own time; by the square it would be minutes."""
    text = piece * (200_000 // len(piece))
    began_s = time.thread_time()
    mask_secrets(text)
    assert time.thread_time() - began_s < 20


@given(
    st.lists(
        st.sampled_from(
            ["token=", "\n", "\r\n", "a" * 40, "b" * 39, " ", '"', "'", "\\", JWT, "x@"]
        )
        | st.text(max_size=8)
    ).map("".join)
)
def test_what_is_not_masked_stays_as_it_was_and_in_its_order(text: str) -> None:
    at = 0
    for kept in mask_secrets(text).split("***"):
        at = text.index(kept, at) + len(kept)
