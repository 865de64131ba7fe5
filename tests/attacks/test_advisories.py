"""Every fault that was proved has a lesson of its number, and an attack that the lesson names."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LESSON = re.compile(r"^- \*\*(\d+)\*\* \((critical|high|medium|low)\) .+\.\n  (`.+`)$", re.M)


def attacks() -> dict[str, set[int]]:
    """The numbers of the faults that each file attacks."""
    return {
        file.name: {int(n) for n in re.findall(r"^def test_fault_(\d+)_", text, re.M)}
        for file in sorted(HERE.glob("test_*.py"))
        for text in [file.read_text("utf-8")]
    }


def test_every_fault_has_a_lesson_and_an_attack():
    lessons = LESSON.findall((ROOT / "docs" / "dev" / "lessons.md").read_text("utf-8"))
    numbers = sorted(int(number) for number, _, _ in lessons)
    assert numbers == list(range(1, len(numbers) + 1))
    assert set().union(*attacks().values()) == set(numbers)


def test_a_lesson_names_every_file_that_attacks_its_fault():
    text = (ROOT / "docs" / "dev" / "lessons.md").read_text("utf-8")
    assert len(re.findall(r"^- ", text, re.M)) == len(LESSON.findall(text))
    for number, _, named in LESSON.findall(text):
        files = re.findall(rf"`(test_\w+\.py)::test_fault_{int(number)}_\*`", named)
        holding = {name for name, numbers in attacks().items() if int(number) in numbers}
        assert len(files) == named.count("`") / 2, number
        assert set(files) == holding, number


def test_the_number_of_faults_and_what_is_open_stand_in_security():
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    numbers = set().union(*attacks().values())
    assert f"proved {len(numbers)} faults" in text
    pending = (HERE / "pending.txt").read_text("utf-8").splitlines()
    is_open = any(line and not line.startswith("#") for line in pending)
    assert ("not fixed: **none**" in text) is not is_open
