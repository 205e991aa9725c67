"""OpenTelemetry: what effectlog reports of its runs, attempts, requests and replays.

effectlog uses ``opentelemetry-api`` and nothing else of OpenTelemetry. It sets no provider, installs no log
handler and exports nothing: set up an SDK as for any other library and it is found, whether before or after
the import, when the next attempt begins. Where nobody listens, an attempt asks once and its effects cost
nothing.

Spans
-----

=================== ========= ======================================================== ==========================
name                kind      one for each                                              parent
=================== ========= ======================================================== ==========================
``enqueue TASK``    PRODUCER  ``enqueue``, ``enqueue_many``, ``run``                    the current span
``emit EVENT``      PRODUCER  ``emit``                                                  the current span
``attempt TASK``    CONSUMER  attempt, from its claim to its recorded end               the enqueue or emit span
``effect NAME``     CLIENT    request: one call of the effect's function                the span current in the task
``resolve NAME``    INTERNAL  ``resolve``, by a person or a program                     the current span
=================== ========= ======================================================== ==========================

An attempt is in the trace of its enqueue span, whatever process claimed it; ``configure(own_traces=True)``
begins a trace of its own for each attempt instead. Either way it has links, which ``effectlog.link`` names:
``enqueue`` (what made the run; for the run of ``on_dead=`` that is the attempt that failed), ``parent`` (the
attempt inside which it was enqueued) and ``attempt`` (each earlier attempt of the run). A resolution links to
the same of the run that it settles.

Events of an attempt: ``replayed`` (an effect answered from the journal: no request, so no span), ``expired``
(an earlier attempt ended with its process or its lease, so its own span may be missing), ``resent`` (an
effect in doubt is sent again), ``looked up``, ``held`` and ``exception``.

A span's status is an error for attempts that end ``error`` or ``timed_out`` or lose their lease, and for
requests that raised an ``Exception``. Being released, held or cancelled is not an error.

Attributes beside those of the semantic conventions (``messaging.*``, ``code.function.name``, ``error.type``,
``server.*``, ``service.peer.name``):

============================ ======= ==========================================================================
name                         type    on
============================ ======= ==========================================================================
``effectlog.run.id``         string  every span; of ``enqueue`` and ``emit`` if there is one run
``effectlog.run.created``    bool    ``enqueue``, ``emit``: false where the idempotency key had its run already
``effectlog.run.state``      string  ``attempt``: the state that its end moved the run to
``effectlog.parent.run.id``  string  ``enqueue``, ``emit`` inside an attempt; attempts of the run made there
``effectlog.task``           string  every span but ``emit``
``effectlog.event``          string  ``emit``
``effectlog.attempt``        int     ``attempt``, ``effect``; links to attempts; event ``expired``
``effectlog.fence``          int     ``attempt``, ``effect``: the fencing number, which is the attempt's number
``effectlog.effect``         string  ``effect``, ``resolve``; events about an effect
``effectlog.effect.key``     string  the same, unless ``configure(effect_keys=False)``: a key may hold personal data
``effectlog.operation_id``   string  the same: what the destination gets as idempotency key
``effectlog.request``        int     ``effect``: ordinal of this request of the effect
``effectlog.replayed``       bool    ``effect``: false; event ``replayed``: true
``effectlog.in_doubt``       bool    ``effect``: an earlier request had no outcome when this one was sent
``effectlog.policy``         string  ``effect``: ``resend``, ``hold`` or ``look-up``
``effectlog.destination``    string  ``effect``: the contract's name
``effectlog.outcome``        string  ``attempt``: as in its record, or ``lost``, ``unrecorded``; ``effect``:
                                     ``completed``, ``not_applied``, ``final`` or ``unknown``; links to attempts
``effectlog.reason``         string  events ``held``, ``expired``; metric ``effectlog.takeovers``
``effectlog.link``           string  links, see above
============================ ======= ==========================================================================

Metrics
-------

================================= ============= =========== ================================ ==========================
name                              instrument    unit        attributes                       counts or measures
================================= ============= =========== ================================ ==========================
``effectlog.attempts``            counter       {attempt}   task, outcome                    recorded ends of attempts
``effectlog.requests``            counter       {request}   effect, destination              requests about to be made
``effectlog.effects.completed``   counter       {effect}    effect, destination              completed records
``effectlog.replays``             counter       {replay}    effect                           answers from the journal
``effectlog.resends``             counter       {request}   effect, destination              requests sent in doubt
``effectlog.holds``               counter       {run}       task                             attempts ended ``held``
``effectlog.lease.losses``        counter       {attempt}   task                             attempts that lost their run
``effectlog.takeovers``           counter       {takeover}  task, reason                     runs got from another owner
``effectlog.dead_letters``        counter       {run}       task                             runs that ended ``failed``
``effectlog.queue.wait``          histogram     s           task                             from due to claimed
``effectlog.attempt.duration``    histogram     s           task, outcome                    from claim to recorded end
``effectlog.request.duration``    histogram     s           effect, destination, outcome     one call of the function
``effectlog.commit.duration``     histogram     s           store                            one transaction
``effectlog.commit.batch_size``   histogram     {command}   store                            commands in a transaction
``effectlog.takeover.duration``   histogram     s           task, outcome                    see below
``effectlog.runs``                gauge         {run}       store, state                     pending, running, held
``effectlog.doubt.oldest_age``    gauge         s           store                            age of the oldest doubt
================================= ============= =========== ================================ ==========================

The attributes' full names begin with ``effectlog.``: ``effectlog.task`` and so on; the state is
``effectlog.run.state``.

Reasons of a takeover: ``expired`` (the lease ran out), ``process dead`` (the operating system said so before
that), ``released`` (given back on shutdown). ``effectlog.takeover.duration`` runs from the record that ended
the earlier attempt to the next attempt's claim (``outcome`` is the earlier one's: ``expired`` or
``released``); when a process died is known to nobody. The gauges are those of the whole store, read when a
reader collects, by every process that has the log open: take their maximum, not their sum.

Logs
----

Everything goes to the standard logger ``effectlog``; ``extra`` holds ``run_id``, ``task``, ``attempt`` and
``effect_key`` where they apply. One INFO line reports a takeover, a WARNING of a resend in doubt. Lines of an
attempt are written inside its span, so trace ids are there where the SDK's logging integration adds them.

Exporters
---------

Spans end after the outcome is on its way to the store, so a slow exporter widens no doubt; use a batching
processor all the same, because a simple one exports on the thread that runs the task, and shut the provider
down at the end. An error in a processor is logged once and is no error of the run. Messages of exceptions and
reasons of holds are recorded as they are.
"""

from __future__ import annotations

from effectlog.telemetry.hooks import committed, observe, producing, resolving, taken_over
from effectlog.telemetry.observer import SILENT, Observer
from effectlog.telemetry.open_stores import unwatch, watch
from effectlog.telemetry.settings import configure

__all__ = [
    "SILENT",
    "Observer",
    "committed",
    "configure",
    "observe",
    "producing",
    "resolving",
    "taken_over",
    "unwatch",
    "watch",
]
