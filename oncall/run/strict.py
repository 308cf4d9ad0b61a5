"""Strict reading of configuration: every mistake in a file is reported, each with its key and line."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
Path = tuple[str, ...]


def check(data: Mapping[str, Any], model: type[T], line_of: Callable[[Path], int | None], file: str) -> list[str]:
    """Every mistake in `data` against `model`, as `file:line: key: what is wrong`, in the order of the file.

    Args:
        data: the parsed document.
        model: a msgspec struct whose nested structs are checked key by key.
        line_of: the line on which a key stands, given its path, or None where that is not known: then the line of
            what holds the key is told; the empty path is the document.
        file: the name to report.
    """
    found = []
    for path, message in _mistakes(data, model, ()):
        holders = (path[:length] for length in range(len(path), -1, -1))
        line = next((number for holder in holders if (number := line_of(holder)) is not None), None)
        where = f"{file}:{line}" if line is not None else file
        found.append((line or 0, f"{where}: {'.'.join(path)}: {message}" if path else f"{where}: {message}"))
    return [text for _, text in sorted(found, key=lambda item: item[0])]


def _mistakes(data: Mapping[str, Any], model: type[msgspec.Struct], path: Path) -> Iterator[tuple[Path, str]]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(model)}
    for key, value in data.items():
        if key in fields:
            yield from _value_mistakes(value, fields[key].type, (*path, key))
        else:
            yield (*path, key), _unknown(key, fields)
    for key, field in fields.items():
        if field.required and key not in data:
            yield path, f"the key `{key}` is missing"


def _value_mistakes(value: Any, annotation: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Structs, mappings and lists are checked item by item; anything else as a whole."""
    if _is_struct(annotation) and isinstance(value, Mapping):
        yield from _mistakes(value, annotation, path)
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _value_mistakes(item, arguments[1], (*path, key))
        return
    if origin in {list, tuple} and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_mistakes(item, arguments[0], (*path, str(index)))
        return
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        yield path, _in_words(str(error), value, annotation)


def _in_words(message: str, value: Any, annotation: Any) -> str:
    """What msgspec says, with what may stand there instead of a regular expression or a number of choices."""
    choices = [choice for each in _alternatives(annotation) for choice in _choices(each)]
    described = [
        told.description
        for each in _alternatives(annotation)
        if get_origin(each) is Annotated
        for told in each.__metadata__
        if isinstance(told, msgspec.Meta) and told.description
    ]
    if choices and message.startswith("Invalid enum value"):
        return f"{value!r} is none of {', '.join(map(repr, choices))}{near(str(value), choices)}"
    if described and "matching regex" in message:
        return f"expected {described[0]}, got {value!r:.60}"
    return message.replace(" | null", "").replace("`object`", "`table`")


def _choices(annotation: Any) -> tuple[str, ...]:
    """What may stand where only certain words may."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return tuple(each.value for each in annotation)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _unknown(key: str, known: Mapping[str, object]) -> str:
    there = ", ".join(sorted(known))
    return f"unknown key{near(key, known) or f'; known here: {there}'}"


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, where one of the names that are known is like this one; else nothing."""
    alike = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean `{alike[0]}`?" if alike else ""
