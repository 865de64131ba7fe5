"""Labels: those of people, which say which records belong to one person, and public classes.

Whose record a record is says the holder of the data, not the record: that every record has a label,
and how many people there are, is public. How many records a person has is not: no message here
counts records, or names one.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from ._sources import form_of, unmasked

NO_CLASS = -1
_FEW_CLASSES = 64  # so many are compared with all labels at once
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
        raise InvalidArgument(f"argument `{name}` is {form_of(labels)}; give a list of labels")
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


# ---------------------------------------------------------------------------- public classes
def admit_labels(name: str, y: object, classes: Sequence[Any]) -> np.ndarray:
    """Private labels as positions in `classes`, read one by one.

    Numbers are compared as numbers and text as text. A label that equals no class in this sense is
    compared by what it says, so that "1" and b"1" mean class 1, and "True" the class True: NumPy
    makes text, floats or complex numbers of all labels when one label is such, and that must not
    change the others.

    Args:
        name: The argument's name, for the error.
        y: A list or a one-dimensional array of labels of any types.
        classes: The public classes, all different.

    Returns:
        An integer array, `classes[out[i]]` being the class of label i, or -1 where it has none.

    Raises:
        InvalidArgument: `y` as a whole is not a one-dimensional sequence.
    """
    if isinstance(y, str | bytes | Mapping) or not (
        isinstance(y, list | tuple) or hasattr(y, "__array__")
    ):
        raise InvalidArgument(f"argument `{name}` is {form_of(y)}; give one label for each record")
    labels: Any = y if isinstance(y, list | tuple) else unmasked(y)
    if isinstance(labels, np.ndarray):
        if labels.ndim != 1:
            raise InvalidArgument(
                f"argument `{name}` has shape {labels.shape}; give one label for each record"
            )
        if labels.dtype.kind in "iu" and _are_whole(classes):
            return _among_whole(labels, classes)
        labels = labels.tolist()
    exact: dict[tuple[str, Any], int] = {}
    spoken: dict[str, int] = {}
    for i, c in enumerate(classes):
        exact.setdefault(_key(c), i)
        if (said := _text(c)) is not None:
            spoken.setdefault(said, i)
    for i, c in enumerate(classes):  # what NumPy makes of a class beside a label of another type
        if (said := _text(str(c))) is not None:
            spoken.setdefault(said, i)
        if isinstance(c, numbers.Integral) and abs(int(c)) < 2**1023:
            exact.setdefault(("number", float(int(c))), i)
    out = np.full(len(labels), NO_CLASS, dtype=np.int64)
    for i, label in enumerate(labels):
        try:
            found = exact.get(_key(label))
            if found is None:
                said = _text(label)
                found = NO_CLASS if said is None else spoken.get(said, NO_CLASS)
            out[i] = found
        except Exception:  # whatever one label does when it is compared, it is private
            continue
    return out


def _are_whole(classes: Sequence[Any]) -> bool:
    """Whether the classes are few whole numbers, which are the same as floats."""
    few = len(classes) <= _FEW_CLASSES
    return few and all(isinstance(c, numbers.Integral) and abs(int(c)) < 2**53 for c in classes)


def _among_whole(labels: np.ndarray, classes: Sequence[Any]) -> np.ndarray:
    """The same for an array of whole numbers: all labels at once."""
    out = np.full(len(labels), NO_CLASS, dtype=np.int64)
    for i in reversed(range(len(classes))):
        out[labels == int(classes[i])] = i
    return out


def _key(label: object) -> tuple[str, Any]:
    kind = type(label)
    if kind is int or kind is float:  # as most are: the tests below take five times as long
        return "number", label
    if isinstance(label, np.ndarray) and label.shape == ():
        label = label.item()
    if isinstance(label, str | bytes):
        return type(label).__name__.removesuffix("_"), one_form(label)
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, complex) and label.imag == 0.0:
        label = label.real
    if isinstance(label, numbers.Real):
        return "number", label
    return "other", label


def one_form(label: Any) -> Any:
    """A text in one of the ways in which Unicode writes it (NFC): an accented letter has several.
    What is no text is returned as it is.
    """
    if isinstance(label, str):
        return unicodedata.normalize("NFC", label)
    if isinstance(label, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return one_form(label.decode()).encode()
    return label


def _text(label: object) -> str | None:
    kind, value = _key(label)
    if kind == "number":
        return repr(int(value)) if math.isfinite(value) and value == int(value) else repr(value)
    if kind == "bytes":
        value = value.decode()
    elif kind != "str":
        return None
    try:
        number = float(value)
    except ValueError:
        return value
    return _text(number)
