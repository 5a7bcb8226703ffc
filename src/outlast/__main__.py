"""`python -m outlast` is the `outlast` command. Layer: top."""

from __future__ import annotations

from outlast.cli.main import main

if __name__ == "__main__":
    main()
