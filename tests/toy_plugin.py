"""What another package would bring through entry points: a method (`wherefrom.methods`) and commands
(`wherefrom.commands`).
"""

import torch
import typer
from torch import Tensor

from wherefrom import method
from wherefrom.case.case import Case


@method(family="toy", signed=False, per_class=False, reads="nothing", paper="none")
def plugged(case: Case) -> Tensor:
    """Every token counts one."""
    return torch.ones(len(case.encoding))


def greet(name: str, loud: bool = False) -> None:
    """Greet somebody."""
    print(f"HELLO {name.upper()}" if loud else f"hello {name}")


toys = typer.Typer(help="Toy commands.")


@toys.command()
def count(upto: int) -> None:
    """Count."""
    print(*range(upto))


@toys.command()
def nothing_at_all() -> None:
    """Do nothing."""


not_a_command = "a text"
