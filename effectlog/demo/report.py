"""What the demo prints. Narrow enough for a README."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from effectlog.demo.timeline import SIGKILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from effectlog.demo.timeline import Moment, Outcome


def opening(url: str) -> None:
    """What there is: said before anything is killed."""
    click.secho("A worker charges a card and dies before it can record that.", bold=True)
    click.echo(f"Destination: {url}, with its own file. Workers A and B: one store, lease 30 s.")


def played(number: int, outcome: Outcome) -> None:
    """One part: its timeline and its counts."""
    click.echo()
    click.secho(f"{number}. {outcome.part.title}", bold=True)
    for moment in outcome.moments:
        click.echo(_line(moment))
    click.echo(f"   {_counted(outcome)}")
    click.echo(f"   {outcome.part.moral if outcome.as_promised else _broken(outcome)}")


def _line(moment: Moment) -> str:
    line = f"{moment.at * 1000:8.0f} ms  {moment.who:<11}  {moment.what}"
    return click.style(line, fg="red") if moment.what == SIGKILL else line


def _counted(outcome: Outcome) -> str:
    counts = outcome.counts
    return click.style(
        f"attempts {counts.attempts} · requests {counts.requests} · accepted effects {counts.effects}",
        bold=True,
    )


def _broken(outcome: Outcome) -> str:
    promised = outcome.part.promised
    return click.style(
        f"NOT AS PROMISED: {promised.attempts} attempts, {promised.requests} requests and "
        f"{promised.effects} accepted effects were",
        fg="red",
    )


def verdict(outcomes: Sequence[Outcome], seconds: float) -> None:
    """One line over everything."""
    kept = sum(outcome.as_promised for outcome in outcomes)
    slowest = max(outcome.took_over_in for outcome in outcomes) * 1000
    click.echo()
    promised = f"{kept} of {len(outcomes)} parts as promised"
    text = f"{promised}; takeover within {slowest:.0f} ms; {seconds:.1f} s in all"
    click.secho(text, bold=True, fg="green" if kept == len(outcomes) else "red")
