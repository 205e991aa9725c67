"""The state of one effect call, and what is recorded of it: below the modules that decide what happens next.

The invariant: what the caller gets is what a replay would return, and whatever was returned is recorded.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn

from effectlog.context import Request
from effectlog.effects.doubt import contract_of
from effectlog.error_info import describe
from effectlog.errors import ConfigurationError, EffectHeld, EffectLogError, EncodingError
from effectlog.model import ErrorInfo
from effectlog.store import commands as c

if TYPE_CHECKING:
    from effectlog.attempt.attempt import Attempt
    from effectlog.decorators.spec import EffectCall
    from effectlog.store.rows import EffectRow


class CallState:
    """One call at its key: at most one of these per key and attempt is under way."""

    def __init__(self, attempt: Attempt, call: EffectCall, *, in_time: bool) -> None:
        self.attempt = attempt
        self.in_time = in_time
        """The call was made before the attempt began to end."""
        self.call = call
        self.spec = call.spec
        self.tries = 0
        self.exists = False
        """The destination has said that it has the operation."""
        self.in_flight = 0
        self.waiting_since: float | None = None
        self.asked = 0
        self.unknown_since: float | None = None
        self.look_up_error = ""
        """What the last look-up raised, if it did."""
        self.dead_since: float | None = None

    @property
    def extra(self) -> dict[str, Any]:
        """What a log line about this call carries beside its text."""
        return self.attempt.extra | {"effect_key": self.call.key}

    @property
    def effect(self) -> EffectRow | None:
        return self.attempt.journal.get(self.call.key)

    def hold(self, reason: str) -> NoReturn:
        """Leave the effect to a decision and the attempt by a signal."""
        self.attempt.hold(self.call.key, reason)
        raise EffectHeld(
            f"effect {self.call.key!r} of run {self.attempt.run_id} is in doubt and waits for a decision: "
            f"{reason}",
            effect_key=self.call.key,
        )

    def settle(self, effect: EffectRow, otherwise: float = 0.0) -> float:
        """Seconds that a request may take to show at the destination; ``otherwise`` without a contract."""
        contract = contract_of(effect, self.spec)
        declared = contract.settle.total_seconds() if contract else otherwise
        return min(declared, self.attempt.runtime.longest_settle)

    def request_scope(self, effect: EffectRow) -> Request:
        """What the effect's function, and a look-up, may know of the request."""
        return Request(
            self.attempt, self.call.key, self.spec.destination, effect.first_request, effect.operation_id
        )

    def finish(self, outcome: c.RequestOutcome, error: BaseException | ErrorInfo, **more: Any) -> None:
        info = error if isinstance(error, ErrorInfo) else describe(error)
        self.attempt.record(c.FinishEffect(self.attempt.fence, self.call.key, outcome, error=info, **more))

    def complete(self, value: Any) -> Any:
        """Record what the function returned. Returns what a replay would, so that the two can't differ."""
        if inspect.isawaitable(value):
            self._refuse_awaitable(value)
        try:
            data, copy = self.stored_form(value)
        except BaseException as error:
            # The request was made and has returned: whatever is wrong with its value, it is not made again.
            problem = describe(error)
            if isinstance(error, EncodingError):
                error.effect_key = self.call.key
            self._succeed(
                None,
                problem.message
                if isinstance(error, EffectLogError)
                else f"{problem.type}: {problem.message}",
            )
            raise
        self._succeed(data, None)
        return copy

    def stored_form(self, value: Any) -> tuple[bytes, Any]:
        """What is stored of a result, and what a replay returns."""
        runtime = self.attempt.runtime
        data = runtime.stored(value, "the result takes", path="result")
        return data, runtime.codec.decode(data, self.spec.returns.value)

    def _succeed(self, data: bytes | None, problem: str | None) -> None:
        self.attempt.record(
            c.FinishEffect(
                self.attempt.fence,
                self.call.key,
                c.RequestOutcome.COMPLETED,
                result=data,
                result_error=problem,
            )
        )

    def _refuse_awaitable(self, value: Any) -> None:
        error = awaitable_error(self.spec.name, value)
        # The coroutine never ran, but the function that made it did.
        self.finish(c.RequestOutcome.UNKNOWN, error)
        raise error


def awaitable_error(name: str, value: Any) -> ConfigurationError:
    """The error for a sync function that returned an awaitable, which is closed where that can be."""
    if inspect.iscoroutine(value):
        value.close()
    return ConfigurationError(
        f"effect {name} is a sync function and returned an awaitable, which can't be a result; "
        f"declare it with 'async def' and await inside"
    )
