"""`python -m kcr`: the command `kcr`, where its program is not on the PATH."""

from kcr.cli.main import main

if __name__ == "__main__":
    main()
