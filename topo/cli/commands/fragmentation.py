# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo fragmentation`: how whole the free capacity is, and the largest job that fits now."""

from topo.cli.options import CaFile, MasterUrl, Output, OutputFormat, TokenFile


def fragmentation(
    *,
    output: OutputFormat = Output.TABLE,
    master: MasterUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
) -> None:
    """Show how broken up the free GPUs are, and the largest job that fits now."""
    from topo.cli.client import connection
    from topo.cli.client.reading import read
    from topo.cli.render import fragmentation as picture
    from topo.model.rest.fragmentation import FragmentationDocument

    to = connection.chosen(master, token_file, ca_file)
    raw = connection.ask(to, lambda client: client.document("/v1/fragmentation"))
    connection.show(
        raw, output, lambda glyphs: picture.report(read(FragmentationDocument, raw), glyphs)
    )
