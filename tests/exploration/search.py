"""Visits every state of a scope, the nearest first, so that the first way found to a broken promise is a shortest one."""

from __future__ import annotations

import itertools
import time
from typing import Any, NamedTuple

from exploration.probes import Probes
from exploration.world import Game, Move, Scope, World


class Found(NamedTuple):
    """What a search has seen."""

    states: int
    transitions: int
    depth: int
    complete: bool
    seconds: float
    broken: str
    trace: list[Move]
    windows: frozenset[str]


class Search:
    """Breadth first from the enqueued run."""

    def __init__(
        self, scope: Scope, *, most_states: int = 10_000_000, depth: int = 1_000, progress: bool = True
    ) -> None:
        self._progress = progress
        self.game = Game(scope)
        self.parents: dict[World, tuple[World, int] | None] = {}
        """Where a world was first reached from, and by which command if it was one."""
        self.kinds: dict[Any, tuple[World, int]] = {}
        """For each kind of change to the rows, the first world in which it happens, and the command."""
        self._most_states = most_states
        self._depth = depth

    def run(self) -> Found:
        began = time.monotonic()
        game, parents, probes = self.game, self.parents, Probes(self.game, progress=self._progress)
        first = game.begin()
        parents[first] = None
        level, transitions, depth = [first], 0, 0
        while level and depth < self._depth and len(parents) < self._most_states:
            depth += 1
            following = []
            for world in level:
                for move in game.moves(world):
                    transitions += 1
                    after = move.after
                    if move.broken:
                        return self._found(
                            began, transitions, depth, False, move.broken, [*self.trace(world), move]
                        )
                    if move.command >= 0:
                        self.kinds.setdefault(game.kind(world.rows, move.command), (world, move.command))
                    after = game.canonical(after)
                    if after not in parents and len(after.requests) <= game.scope.requests:
                        parents[after] = (world, move.command)
                        if broken := probes.broken(after):
                            trace = [*self.trace(world), move]
                            return self._found(began, transitions, depth, False, broken, trace)
                        following.append(after)
            level = following
        return self._found(began, transitions, depth, not level, "", [])

    def _found(
        self, began: float, transitions: int, depth: int, complete: bool, broken: str, trace: list[Move]
    ) -> Found:
        seconds = time.monotonic() - began
        return Found(
            len(self.parents),
            transitions,
            depth,
            complete,
            seconds,
            broken,
            trace,
            frozenset(self.game.windows),
        )

    def path(self, world: World) -> list[World]:
        """The worlds that lead to this one."""
        worlds = [world]
        while (parent := self.parents[worlds[-1]]) is not None:
            worlds.append(parent[0])
        worlds.reverse()
        return worlds

    def trace(self, world: World) -> list[Move]:
        """The moves that lead to a world."""
        worlds = self.path(world)
        moves = []
        for before, after in itertools.pairwise(worlds):
            moves.append(
                next(move for move in self.game.moves(before) if self.game.canonical(move.after) == after)
            )
        return moves

    def commands(self, world: World) -> list[int]:
        """The store's part of what leads to a world."""
        steps = [self.parents[after] for after in self.path(world)[1:]]
        return [step[1] for step in steps if step is not None and step[1] >= 0]
