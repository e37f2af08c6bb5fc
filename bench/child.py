"""One subject of a section, in this process: ``python -m bench.child SECTION SUBJECT INPUTS OUTPUT``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.__main__ import section_of
from bench.section import Run


def main(section: str, subject: str, inputs: Path, output: Path) -> None:
    result = section_of(section).subjects[subject](Run(**json.loads(inputs.read_text())))
    output.write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
