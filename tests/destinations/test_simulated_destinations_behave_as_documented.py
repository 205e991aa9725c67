"""Danger: a simulated destination is kinder (or crueller) than the kind it stands for."""

from __future__ import annotations

import http.client
import socket
import sqlite3
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from effectlog.contract import Verdict
from effectlog.testing.destinations import KINDS, AnswerError, CountingDestination, Fault, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEDUPLICATING = sorted(kind for kind, behaviour in KINDS.items() if behaviour.contract.deduplicates)
HOUR = timedelta(hours=1)


@pytest.fixture
def destination(request: pytest.FixtureRequest) -> Iterator[CountingDestination]:
    with CountingDestination(getattr(request, "param", "replay")) as started:
        yield started


def kinds(*names: str) -> Any:
    return pytest.mark.parametrize("destination", names, indirect=True)


def charge(destination: CountingDestination, key: str | None = "key-1", **more: Any) -> Any:
    return send(destination.url, {"operation": "charge", "cents": 1999, **more}, key=key)


def refused(destination: CountingDestination, **more: Any) -> AnswerError:
    with pytest.raises(AnswerError) as caught:
        charge(destination, **more)
    return caught.value


def counts(destination: CountingDestination) -> tuple[int, int]:
    return len(destination.requests()), len(destination.effects())


@kinds(*DEDUPLICATING)
def test_a_lost_answer_and_a_resend_with_the_key_make_one_effect(destination: CountingDestination) -> None:
    destination.lose_next_answer()
    with pytest.raises(http.client.RemoteDisconnected):
        charge(destination)
    assert counts(destination) == (1, 1)
    with suppress(AnswerError):
        charge(destination)
    assert counts(destination) == (2, 1)
    assert [request.outcome for request in destination.requests()] == ["accepted", "duplicate"]


@kinds("look_up", "blind")
def test_a_destination_without_keys_makes_a_second_effect(destination: CountingDestination) -> None:
    charge(destination)
    charge(destination)
    assert counts(destination) == (2, 2)


@kinds(*DEDUPLICATING)
def test_any_number_of_simultaneous_requests_with_one_key_make_one_effect(
    destination: CountingDestination,
) -> None:
    start = threading.Barrier(8)

    def send_one() -> None:
        start.wait(60)
        with suppress(AnswerError):
            charge(destination)

    threads = [threading.Thread(target=send_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts(destination) == (8, 1)


@kinds("replay", "current", "reject")
def test_a_request_while_the_first_is_executed_is_told_to_wait(destination: CountingDestination) -> None:
    destination.next_request(Fault(delay_before=60))
    first = threading.Thread(target=charge, args=(destination,))
    first.start()
    destination.wait_for_requests(1)
    error = refused(destination)
    assert destination.contract.classify(error) is Verdict.IN_FLIGHT
    assert destination.effects() == []
    destination.release()
    first.join()
    assert counts(destination) == (2, 1)


def test_a_replay_gives_the_first_answer_and_says_so(destination: CountingDestination) -> None:
    first = charge(destination)
    assert charge(destination) == first == {"id": "effect-1", "operation": "charge"}


@kinds("current")
def test_current_state_differs_from_the_first_answer(destination: CountingDestination) -> None:
    first, second = charge(destination), charge(destination)
    assert second["id"] == first["id"]
    assert second != first


@kinds("reject")
def test_the_rejection_proves_the_effect_and_names_it(destination: CountingDestination) -> None:
    first = charge(destination)
    error = refused(destination)
    assert destination.contract.classify(error) is Verdict.APPLIED
    assert destination.contract.existing(error) == first["id"]


@kinds("drop")
def test_a_dropped_duplicate_looks_like_success_even_with_another_body(
    destination: CountingDestination,
) -> None:
    charge(destination)
    assert charge(destination, cents=1) == {"id": None}
    assert counts(destination) == (2, 1)
    destination.advance(timedelta(minutes=5))
    charge(destination)
    assert counts(destination) == (3, 2)


@kinds("replay", "current")
def test_a_key_with_another_body_is_misuse(destination: CountingDestination) -> None:
    charge(destination)
    error = refused(destination, cents=1)
    assert destination.contract.classify(error) is Verdict.KEY_MISUSED
    assert counts(destination) == (2, 1)


@kinds("replay_errors")
def test_a_stored_500_comes_back(destination: CountingDestination) -> None:
    destination.next_request(Fault(status=500, applies=False))
    assert refused(destination).status_code == refused(destination).status_code == 500
    assert counts(destination) == (2, 0)


@kinds("replay", "success_only")
def test_a_forgotten_500_is_tried_again(destination: CountingDestination) -> None:
    destination.next_request(Fault(status=500, applies=False))
    assert refused(destination).status_code == 500
    charge(destination)
    assert counts(destination) == (2, 1)


def test_a_declined_request_is_stored_by_one_kind_and_tried_again_by_another() -> None:
    for kind, effects in (("replay", 0), ("success_only", 1)):
        with CountingDestination(kind) as destination:
            destination.next_request(Fault(status=402, code="card_declined", applies=False))
            assert refused(destination).body["error"]["code"] == "card_declined"
            with suppress(AnswerError):
                charge(destination)
            assert counts(destination) == (2, effects)


@kinds("new_key")
def test_a_failed_key_is_used_up(destination: CountingDestination) -> None:
    destination.next_request(Fault(status=402, applies=False))
    refused(destination)
    error = refused(destination)
    assert destination.contract.classify(error) is Verdict.NOT_APPLIED
    charge(destination, key="key-2")
    assert counts(destination) == (3, 1)


def test_an_error_can_come_after_the_effect(destination: CountingDestination) -> None:
    destination.next_request(Fault(status=503))
    assert refused(destination).status_code == 503
    assert counts(destination) == (1, 1)


def test_a_request_can_be_lost_before_it_takes_effect(destination: CountingDestination) -> None:
    destination.next_request(Fault(lose=True, applies=False))
    with pytest.raises(http.client.RemoteDisconnected):
        charge(destination)
    assert counts(destination) == (1, 0)
    charge(destination)
    assert counts(destination) == (2, 1)


def test_keys_outlive_a_day_only_by_the_documented_time(destination: CountingDestination) -> None:
    charge(destination)
    destination.advance(timedelta(hours=23, minutes=59))
    charge(destination)
    assert counts(destination) == (2, 1)
    destination.advance(timedelta(minutes=2))
    charge(destination)
    assert counts(destination) == (3, 2)


@kinds("forgets")
def test_the_nasty_one_forgets_long_before_it_says(destination: CountingDestination) -> None:
    charge(destination)
    charge(destination)
    destination.advance(HOUR)
    horizon = destination.contract.send_horizon()
    assert horizon is not None
    assert horizon > HOUR
    charge(destination)
    assert counts(destination) == (3, 2)


@kinds("replay", "reject", "drop")
def test_keys_can_be_forgotten_on_demand(destination: CountingDestination) -> None:
    charge(destination)
    destination.forget_keys()
    charge(destination)
    assert counts(destination) == (2, 2)


@kinds("look_up")
def test_the_index_lags(destination: CountingDestination) -> None:
    charge(destination)
    assert destination.look_up("charge") == []
    destination.advance(destination.contract.settle)
    assert [effect.operation for effect in destination.look_up("charge")] == ["charge"]
    assert destination.look_up("another") == []


@kinds("blind", "drop")
def test_what_cannot_be_searched_says_so(destination: CountingDestination) -> None:
    charge(destination)
    with pytest.raises(AnswerError):
        destination.look_up("charge")


@kinds("late")
def test_the_nasty_one_takes_effect_after_the_look_up(destination: CountingDestination) -> None:
    first = threading.Thread(target=charge, args=(destination,))
    first.start()
    destination.wait_for_requests(1)
    assert destination.look_up("charge") == []
    destination.wait_for_effects(1)
    first.join()
    charge(destination)
    assert counts(destination) == (2, 2)


@kinds("late")
def test_it_takes_effect_although_its_sender_is_dead(destination: CountingDestination) -> None:
    host, port = destination.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as dying:
        dying.sendall(b'POST / HTTP/1.0\r\nContent-Length: 23\r\n\r\n{"operation": "charge"}')
        destination.wait_for_requests(1)
    destination.look_up("charge")
    assert len(destination.wait_for_effects(1)) == 1


def test_the_answer_can_be_delayed_after_the_effect(destination: CountingDestination) -> None:
    destination.next_request(Fault(delay_after=60))
    first = threading.Thread(target=charge, args=(destination,))
    first.start()
    destination.wait_for_effects(1)
    assert charge(destination)["id"] == "effect-1"
    destination.release()
    first.join()
    assert counts(destination) == (2, 1)


def test_faults_hit_the_next_requests_only_and_in_order(destination: CountingDestination) -> None:
    destination.next_request(Fault(status=500, applies=False))
    destination.next_request(Fault(status=503, applies=False))
    assert refused(destination).status_code == 500
    assert refused(destination).status_code == 503
    assert charge(destination)["id"] == "effect-1"


def test_waiting_for_too_much_times_out_and_tells_the_count(destination: CountingDestination) -> None:
    charge(destination)
    with pytest.raises(TimeoutError, match=r"1 requests after 0\.01 s instead of 2"):
        destination.wait_for_requests(2, timeout=0.01)


def test_counts_are_told_apart_by_operation(destination: CountingDestination) -> None:
    for operation in ("a", "b", "a"):
        send(destination.url, {"operation": operation}, key=operation)
    assert len(destination.requests_for("a")) == 2
    assert len(destination.effects_for("a")) == 1
    assert destination.effects_for("b")[0].key == "b"
    assert destination.effects_for("b")[0].body == {"operation": "b"}


def test_a_process_of_its_own_behaves_alike_and_keeps_its_records(tmp_path: Path) -> None:
    db = tmp_path / "destination.db"
    with CountingDestination("replay", process=True, db=db, remembers=HOUR) as destination:
        destination.lose_next_answer()
        with pytest.raises(http.client.RemoteDisconnected):
            charge(destination)
        charge(destination)
        assert counts(destination) == (2, 1)
        destination.advance(HOUR)
        charge(destination)
    with pytest.raises(ConnectionRefusedError):
        charge(destination)
    records = sqlite3.connect(db)
    with suppress(sqlite3.Error):
        assert records.execute("SELECT count(*) FROM requests").fetchone() == (3,)
        assert records.execute("SELECT count(*) FROM effects").fetchone() == (2,)
    records.close()


def test_the_database_itself_refuses_a_second_effect_for_a_key(tmp_path: Path) -> None:
    with CountingDestination("replay", db=tmp_path / "d.db") as destination:
        charge(destination)
    records = sqlite3.connect(tmp_path / "d.db")
    with pytest.raises(sqlite3.IntegrityError):
        records.execute("INSERT INTO keys SELECT key, 0, '', 200, '', 2 FROM keys")
    records.close()


def test_every_kind_documents_a_contract_that_takes_our_ids() -> None:
    for kind, behaviour in KINDS.items():
        behaviour.contract.check_operation_id()
        retention = behaviour.contract.retention
        honest = retention is None or behaviour.remembers >= retention
        assert honest is (kind != "forgets"), kind
