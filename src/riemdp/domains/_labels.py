"""Labels: those of people, which say which records belong to one person, and public classes.

Whose record a record is says the holder of the data, not the record: that every record has a label,
and how many people there are, is public. How many records a person has is not: no message here
counts records, or names one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from ._door import _form, _text, one_form

_MISSING = ("", "nan", "None", "NaN", "<NA>", "NaT")  # what NumPy and pandas write for no label
_DIGITS = 300  # of a number that is read exactly
_REMEDY = "give one label for each record: a number or a text that names its person"


def admit_people(name: str, groups: object, rows: int, *, of: str = "X") -> tuple[np.ndarray, int]:
    """Labels as places from 0 on, in the order of the labels as text.

    Two labels name the same person if they say the same: 7, 7.0, "7" and " 7" do, and so do the two
    ways to write an accented letter in Unicode (texts are compared in NFC). Joining two people by
    mistake protects them together; splitting one would protect neither half.

    Args:
        name: The argument's name, for the error.
        groups: n labels, numbers or texts.
        rows: The number of records.
        of: The name of the argument that holds them.

    Returns:
        An integer array (n,), and the number of people.

    Raises:
        InvalidArgument: Not one label for each record, or a label is missing (None, NaN, masked,
            empty) or neither number nor text.
    """
    if isinstance(groups, str | bytes | Mapping) or not (
        isinstance(groups, list | tuple) or hasattr(groups, "__array__")
    ):
        raise InvalidArgument(f"argument `{name}` is a {type(groups).__name__}; {_REMEDY}")
    labels: Any = groups if isinstance(groups, list | tuple) else np.asarray(groups)
    if isinstance(groups, np.ma.MaskedArray) and groups.ndim == 1:
        labels = groups.tolist()  # None where there is a mask
    if isinstance(labels, np.ndarray) and labels.ndim != 1:
        raise InvalidArgument(f"argument `{name}` has {labels.ndim} axes; {_REMEDY}")
    if len(labels) != rows:
        raise InvalidArgument(f"argument `{name}` has another length than `{of}`; {_REMEDY}")
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        _, places = np.unique(labels, return_inverse=True)
        return places.reshape(-1), int(places.max(initial=-1)) + 1
    told = [_said(label) for label in labels]
    if None in told:
        raise InvalidArgument(
            f"argument `{name}` has labels that are missing, or are neither numbers nor texts, so"
            f" nobody knows whose these records are; {_REMEDY}, and leave out records of nobody"
        )
    place = {label: i for i, label in enumerate(sorted(set(told)))}  # type: ignore[type-var]
    return np.array([place[label] for label in told], dtype=np.int64), len(place)


def public_classes(name: str, labels: object) -> np.ndarray:
    """The classes that public labels name: all different, in order.

    Args:
        name: The argument's name, for the error.
        labels: Labels of the records, or the list of classes.

    Raises:
        InvalidArgument: No list of labels, or one of them is missing, or they have several types,
            or one is written in two ways.
    """
    sequence = isinstance(labels, Sequence) and not isinstance(labels, str | bytes)
    if not sequence and not hasattr(labels, "__array__"):
        raise InvalidArgument(f"argument `{name}` is {_form(labels)}; give a list of labels")
    if any(map(is_missing, one_by_one(labels))):
        raise InvalidArgument(
            f"argument `{name}` has labels that are missing (None, NaN, or a text such as 'nan'"
            " that stands for them), which would make a class of their own; leave out these"
            " records, or give a class of that name another one"
        )
    try:
        found = np.unique(np.asarray(labels))
    except TypeError as error:
        raise InvalidArgument(
            f"argument `{name}` has labels of several types, such as numbers beside texts; give"
            " all of them as numbers or all as texts"
        ) from error
    refuse_two_forms(name, found.tolist())
    return found


def refuse_two_forms(name: str, public: Iterable[Any]) -> None:
    """Raise where public names are the same to a reader, and two to the machine.

    Args:
        name: The argument's name, for the error.
        public: Names of classes or domains.

    Raises:
        InvalidArgument: One of them is there in two ways of writing.
    """
    first: dict[Any, Any] = {}
    for each in public:
        if first.setdefault(one_form(each), each) != each:
            raise InvalidArgument(
                f"argument `{name}` has {one_form(each)!r} in two ways of writing an accented"
                " letter in Unicode (NFC and NFD), which would be two classes; write all of them"
                ' in one, unicodedata.normalize("NFC", label)'
            )


def one_by_one(labels: object) -> list[Any] | tuple[Any, ...]:
    """Labels as they were given, before NumPy makes one type of all; masked ones are None."""
    if isinstance(labels, list | tuple):
        return labels
    array = labels if isinstance(labels, np.ma.MaskedArray) else np.asarray(labels)
    return array.reshape(-1).tolist()


def is_missing(label: object) -> bool:
    """Whether a label is none: None, NaN, NaT, NA, masked, or a text that stands for one."""
    if label is None or label is np.ma.masked:
        return True
    if isinstance(label, str | bytes):
        text = label.decode(errors="replace") if isinstance(label, bytes) else label
        return text.strip() in _MISSING
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
        return True


def _said(label: object) -> str | None:
    """What a label says; None where it says nothing."""
    if label is np.ma.masked:
        return None
    if isinstance(label, bool | np.bool_):
        label = int(label)
    try:
        said = _whole(label) or _text(label)
    except (UnicodeDecodeError, OverflowError):
        return None
    said = None if said is None else said.strip()
    return None if said is None or said in _MISSING else said


def _whole(label: object) -> str | None:
    """The whole number that a text says, however long; float64 would tell it from an integer of the
    same digits, and so make two people of one.
    """
    text = label.decode() if isinstance(label, bytes) else label
    if not isinstance(text, str):
        return None
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    if not number.is_finite() or number.adjusted() > _DIGITS:
        return None
    return repr(int(number)) if number == number.to_integral_value() else None
