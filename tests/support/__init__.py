"""What tests share: servers, processes that are killed and stopped, stores that fail, and what was seen of them.

The programs that those processes run lie in ``tests/apps``. They are imported by a bare name, as a user's are, for
the name of a task and of a class is stored.
"""

from pathlib import Path

APPS = Path(__file__).parents[1] / "apps"
