"""``litemq completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

import click

from litemq.cli import output

_HOW = {
    "bash": 'eval "$(litemq completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(litemq completion zsh)" in ~/.zshrc',
    "fish": "litemq completion fish > ~/.config/fish/completions/litemq.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_HOW)))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(litemq completion bash)" in ~/.bashrc
    zsh:   eval "$(litemq completion zsh)" in ~/.zshrc
    fish:  litemq completion fish > ~/.config/fish/completions/litemq.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows all of these"
    root = context.find_root()
    script = found(root.command, {}, "litemq", "_LITEMQ_COMPLETE")
    output.write_line(f"# {_HOW[shell]}")
    output.write_line(script.source())
    return 0
