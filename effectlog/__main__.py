"""``python -m effectlog``: the command line."""

from effectlog.cli import main

if __name__ == "__main__":
    main()
