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
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from ._reading import form_of, unmasked

NO_CLASS = -1
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
    told = [_said_of_person(label) for label in labels]
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
            f"argument `{name}` has labels of several types, such as numbers and texts; give"
            " all of them as numbers or all as texts"
        ) from error
    refuse_two_forms(name, found.tolist(), said)
    return found


def refuse_two_forms(
    name: str, public: Iterable[Any], form: Callable[[Any], Any] | None = None
) -> None:
    """Raise where public names are the same to a reader, and two to the machine.

    Args:
        name: The argument's name, for the error.
        public: Names of classes or domains.
        form: What a name is the same by; None: by the letters that Unicode writes in several ways.

    Raises:
        InvalidArgument: One of them is there in two ways of writing.
    """
    first: dict[Any, Any] = {}
    for each in public:
        told = one_form(each) if form is None else form(each) or str(each)
        if first.setdefault(told, each) != each:
            raise InvalidArgument(
                f"argument `{name}` has {told!r} in two ways of writing it (an accented letter in"
                " Unicode as NFC and NFD, a number with a zero before it), which would be two"
                ' classes; write all of them in one, unicodedata.normalize("NFC", label)'
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


def said(label: object) -> str | None:
    """What a label says: a text without spaces around it, or a number, however its type writes it.
    None where it is missing, or neither of them.
    """
    if is_missing(label):
        return None
    if isinstance(label, np.ndarray | np.generic):
        label = label.item()
    if isinstance(label, complex) and label.imag == 0.0:
        label = label.real
    if isinstance(label, str | bytes):
        text = label if isinstance(label, str) else label.decode()
        return _of_text(one_form(text).strip())
    if not isinstance(label, numbers.Real):
        return None
    whole = math.isfinite(label) and label == math.trunc(label)
    return repr(math.trunc(label)) if whole else repr(float(label))


def _of_text(text: str) -> str:
    """A number in one of the ways in which a text writes it; any other text as it is. Whole numbers
    are read exactly, however long: float64 would tell one from an integer of the same digits, and
    so make two people of one.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite() or number.adjusted() > _DIGITS:
        return text
    return repr(int(number)) if number == number.to_integral_value() else repr(float(number))


def _said_of_person(label: object) -> str | None:
    try:
        return said(label)
    except (UnicodeDecodeError, OverflowError):
        return None


# ---------------------------------------------------------------------------- public classes
def admit_labels(name: str, y: object, classes: Sequence[Any]) -> np.ndarray:
    """Private labels as positions in `classes`, read one by one.

    A label is of the class that says the same, so that 1, 1.0, "1" and b"1" mean class 1, and
    "True" the class True: NumPy makes text, floats or complex numbers of all labels when one label
    is such, and that must not change the others.

    Args:
        name: The argument's name, for the error.
        y: A list or a one-dimensional array of labels of any types.
        classes: The public classes, which all say something else.

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
    if isinstance(labels, np.ndarray) and labels.ndim != 1:
        raise InvalidArgument(
            f"argument `{name}` has shape {labels.shape}; give one label for each record"
        )
    places: dict[str, int] = {}
    for told in (said, _as_text, _as_float):  # what NumPy makes of it beside one of another type
        for i, c in enumerate(classes):
            places.setdefault(told(c) or str(c), i)
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iufb":
        each, of = np.unique(labels, return_inverse=True)
        return np.array([_place(one, places) for one in each], dtype=np.int64)[of.reshape(-1)]
    return np.array([_place(label, places) for label in labels], dtype=np.int64)


def _as_text(label: object) -> str | None:
    return said(str(label))


def _as_float(label: object) -> str | None:
    if isinstance(label, numbers.Integral) and abs(int(label)) < 2**1023:
        return said(float(int(label)))
    return said(label)


def _place(label: object, places: Mapping[str, int]) -> int:
    try:
        told = said(label)
        if told is None and not is_missing(label):
            told = str(label)
        return NO_CLASS if told is None else places.get(told, NO_CLASS)
    except Exception:  # whatever one label does when it is read, it is private
        return NO_CLASS


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
