"""Forks children that have everything imported, so that a test with a real process takes milliseconds.

It has one thread and no loop when it forks, and a child is a process like any other. One line of JSON on
stdin makes one child: its arguments, its environment, and the two pipes it talks through.
"""

import faulthandler
import json
import os
import signal
import sys

import crash_child

import effectlog.store.sqlite  # noqa: F401 - imported here so that no child has to


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody asks for exit statuses here.
    faulthandler.register(signal.SIGUSR1)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            become(order)
        os.write(1, f"{child}\n".encode())


def become(order: dict[str, str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        os.environ.update(order["environment"])
        for number, (name, mode) in enumerate([("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY)]):
            opened = os.open(order[name], mode)
            os.dup2(opened, number)
            os.close(opened)
        sys.argv[1:] = order["arguments"]
        crash_child.main()
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
