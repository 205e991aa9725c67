"""Danger: an example that somebody copies does not run, or counts something else than it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

SAYS = {
    "decorate_existing_functions": [
        "worker A was killed by signal 9, after the charge and before the mail",
        "worker B returned 'ch_A-42'",
        "attempts: 1 by A: expired; 2 by B: succeeded",
        "effect charge:A-42: 1 request, completed in attempt 1",
        "effect mail:A-42: 1 request, completed in attempt 2",
        "the outside world saw: ['charged A-42 1999', 'mailed A-42 ch_A-42']",
    ],
    "payment_stripe": [
        "worker A was killed after Stripe accepted: 1 request, 1 charge",
        "worker B returned 'pi_1': 2 requests, 1 charge",
        "keys that Stripe saw: 1",
        "a declined card is final: stripe._error.CardError, 1 attempt",
    ],
    "email_smtp": [
        "worker A was killed after the server accepted: 1 mail",
        "worker B sent nothing; the run is held for receipt:A-42",
        "looking for its Message-ID in the mailbox: found",
        "decided, and the run goes on: A-42 is done",
        "mails: 1, requests: 1",
    ],
    "email_http": [
        "worker A was killed after the provider accepted A-42",
        "worker B returned 'effect-1'",
        "the same attempt sent it again and returned 'effect-2'",
        "A-42: 2 requests, 1 key, 1 mail",
        "B-7: 2 requests, 1 key, 1 mail",
    ],
    "email_ses": [
        "worker A was killed after SES accepted: 1 mail",
        "worker B sent nothing; the run is held for receipt:A-42: 1 mail",
        "decided, and the run goes on with 'unknown id'",
        "mails: 1, requests: 1, decided by ann@example.com",
    ],
    "web_shop": [
        "A-1 ordered by two clicks: 1 run",
        "A-1 is {'state': 'succeeded', 'result': {'order': 'A-1', 'payment': 'effect-1'}}",
        "B-2, whose answer is lost, is {'state': 'held', 'result': None}",
        "the provider's webhook: 204",
        "B-2 is {'state': 'succeeded', 'result': {'order': 'B-2', 'payment': 'effect-2'}}",
        "the webhook once more: 204",
        "requests: 2, payments: 2",
    ],
}


@pytest.mark.parametrize("name", sorted(SAYS))
def test_it_runs_from_a_clean_folder_and_counts_what_it_says(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in SAYS[name]] == SAYS[name], done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)
