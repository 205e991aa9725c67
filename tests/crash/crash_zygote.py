"""Forks children that have everything imported, so that a test with a real process takes milliseconds.

It has one thread and no loop when it forks, and a child is a process like any other. One line of JSON on
stdin makes one child: its arguments, its environment, and the two pipes it talks through.
"""

import json
import os
import signal
import sys

import crash_child

import effectlog.store.sqlite  # noqa: F401 - imported here so that no child has to


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody asks for exit statuses here.
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
        os.dup2(os.open(order["stdin"], os.O_RDONLY), 0)
        os.dup2(os.open(order["stdout"], os.O_WRONLY), 1)
        sys.argv[1:] = order["arguments"]
        crash_child.main()
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
