"""Where the bytes of a data set come from: the folder `RIEMDP_DATA`, then the cache, then its
public address.

Downloads are checked against the publisher's checksum and arrive whole or not at all. `pooch` is
imported when a file has to be fetched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from riemdp import DataUnavailable


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set.

    `folder/name` is its place under `RIEMDP_DATA` and under the cache; `urls` are tried in order;
    `checksum` is "md5:..." or "sha256:...", or None where the publisher states none (the reader
    then checks the content instead).
    """

    folder: str
    name: str
    urls: tuple[str, ...]
    checksum: str | None
    licence: str


def data_folder() -> Path | None:
    """The folder that the environment variable `RIEMDP_DATA` names, or None when it is not set.

    Raises `DataUnavailable` when it is set to something that is not a folder, so that a typing
    error is not silently answered with a download.
    """
    named = os.environ.get("RIEMDP_DATA", "").strip()
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataUnavailable(
            f"RIEMDP_DATA = {named!r} is not a folder; set it to the folder with your data, or"
            " unset it"
        )
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: `RIEMDP_CACHE` if set, else the user's cache folder of the
    operating system.
    """
    named = os.environ.get("RIEMDP_CACHE", "").strip()
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("riemdp"))


def local_path(file: PublicFile) -> Path | None:
    """The path of `file` under `RIEMDP_DATA`, else in the cache with the right checksum; None if it
    is in neither.
    """
    folder = data_folder()
    if folder is not None:
        for candidate in (folder / file.folder / file.name, folder / file.name):
            if candidate.is_file():
                return candidate
    cached = cache_folder() / file.folder / file.name
    if cached.is_file() and _checksum_is_right(cached, file.checksum):
        return cached
    return None


def find(file: PublicFile, *, download: bool = True) -> Path:
    """Path of a file on this machine, downloading it if it is not there yet and `download` is true.

    Raises `DataUnavailable` that names the public address, the place where the file may be put by
    hand, and its licence.
    """
    path = local_path(file)
    if path is not None:
        return path
    if not download:
        raise DataUnavailable(
            _remedy(file, "it is not on this machine and downloading was switched off")
        )
    import pooch

    target = cache_folder() / file.folder
    failures = []
    for url in file.urls:
        try:
            got = pooch.retrieve(
                url,
                known_hash=file.checksum,
                fname=file.name,
                path=target,
                downloader=cast(Any, pooch.HTTPDownloader(timeout=30)),
            )
            return Path(got)
        # every cause (no network, 404, wrong checksum, full disk) ends in one clear message
        except Exception as error:
            first_line = str(error).partition("\n")[0]
            failures.append(f"{url}: {type(error).__name__}: {first_line}"[:300])
    raise DataUnavailable(_remedy(file, "; ".join(failures) or "it has no public address"))


def unreadable(path: Path, reason: str) -> DataUnavailable:
    """The error for a file that is there but is not what it should be."""
    return DataUnavailable(
        f"{path} cannot be used: {reason}. Delete or replace it; it will be fetched again if it was"
        " cached."
    )


def _remedy(file: PublicFile, cause: str) -> str:
    where = " or ".join(file.urls) or "its authors"
    return (
        f"data file '{file.folder}/{file.name}' is not available ({cause}). Get it from {where}"
        f" (licence: {file.licence}), put it at $RIEMDP_DATA/{file.folder}/{file.name} and set"
        " RIEMDP_DATA to that folder"
    )


def _checksum_is_right(path: Path, checksum: str | None) -> bool:
    if checksum is None:
        return True
    import pooch

    algorithm, _, digest = checksum.partition(":")
    return pooch.file_hash(str(path), alg=algorithm) == digest
