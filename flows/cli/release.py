"""`loupe release`: all that is done with releases."""

import typer

from flows.cli.release_build import build, rebuild
from flows.cli.release_contamination import contamination
from flows.cli.release_diff import diff
from flows.cli.release_export import export
from flows.cli.release_list import list_, show
from flows.cli.release_opening import within_memory
from flows.cli.release_proofs import check_proof, prove, sign
from flows.cli.release_report import report
from flows.cli.release_upload import upload
from flows.cli.release_verify import verify

app = typer.Typer(
    help="Build, verify, compare, sign, export and upload releases.", no_args_is_help=True
)
app.command()(build)
app.command("list")(list_)
app.command()(within_memory(show))
app.command()(within_memory(verify))
app.command()(within_memory(report))
app.command()(within_memory(diff))
app.command()(rebuild)
app.command()(within_memory(export))
app.command()(within_memory(upload))
app.command()(within_memory(contamination))
app.command()(within_memory(sign))
app.command()(within_memory(prove))
app.command()(within_memory(check_proof))
