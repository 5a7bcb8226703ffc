"""How an error here is made: fields, a code and a message of three parts. Layer: errors, importable by all."""

from __future__ import annotations

from typing import ClassVar, cast, dataclass_transform

__all__ = ["Described", "OutlastError"]


@dataclass_transform(eq_default=False)
class Described:
    """What all errors here share: a class annotates its fields and gives a template over them.

    A field is an annotation, with or without a default, as in a dataclass (which costs ten times as much to import).
    """

    code: ClassVar[str]
    template: ClassVar[tuple[str, str, str]]
    """What happened, to what, and what to do: format strings over the fields."""
    args: tuple[object, ...]
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = (
            name for name, kind in vars(cls).get("__annotations__", {}).items() if not str(kind).startswith("ClassVar")
        )
        cls._fields = tuple(dict.fromkeys((*cls._fields, *own)))

    def __init__(self, *args: object, **kwargs: object) -> None:
        given = dict(zip(self._fields, args, strict=False))
        if len(args) > len(self._fields) or kwargs.keys() - self._fields or kwargs.keys() & given:
            raise TypeError(f"{type(self).__name__}({', '.join(self._fields)}) got {args!r}, {kwargs!r}")
        vars(self).update(given, **kwargs)
        try:
            self.args = tuple(getattr(self, name) for name in self._fields)
        except AttributeError as error:
            raise TypeError(f"{type(self).__name__} needs {error.name!r}") from None
        for value in self.args:
            if isinstance(value, BaseException):  # so that a traceback shows it, wherever this one is raised
                cast(BaseException, self).__cause__ = value

    def parts(self) -> tuple[str, str, str]:
        """What happened, to what, and what to do."""
        values = dict(zip(self._fields, self.args, strict=True))
        what, where, todo = (part.format_map(values) for part in self.template)
        return what, where, todo

    def __str__(self) -> str:
        what, where, todo = self.parts()
        return f"{what}: {where}. {todo}"


class OutlastError(Described, Exception):
    """The root: `except OutlastError` catches what the engine itself reports."""
