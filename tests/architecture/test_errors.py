"""The error tree: what programs may rely on."""

from __future__ import annotations

import inspect
import pickle
import re

from outlast import errors

FOR_AUTHORS = {"ExpectedError", "NonRetryable"}  # authors raise and derive from these; the codes are theirs
CODE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")


def list_errors() -> list[type[BaseException]]:
    """The public exception classes of `outlast.errors`."""
    found = [value for name, value in vars(errors).items() if inspect.isclass(value) and not name.startswith("_")]
    return [value for value in found if issubclass(value, BaseException)]


def has_own_code(error: type[BaseException]) -> bool:
    """Whether it is raised itself. A class without is a branch of the tree: for `except`, not for `raise`."""
    return "code" in vars(error)


def test_every_error_has_a_code() -> None:
    """An error that can be raised has a code of its own, in capitals; only branches of the tree have none."""
    classes = list_errors()
    assert classes
    leaves = [error for error in classes if not any(issubclass(other, error) for other in classes if other != error)]
    coded = {error.__name__ for error in leaves if isinstance(getattr(error, "code", None), str)}
    assert {error.__name__ for error in leaves} - coded - FOR_AUTHORS == set()
    codes = [str(vars(error)["code"]) for error in classes if has_own_code(error)]
    assert [code for code in codes if not CODE.fullmatch(code)] == []


def test_no_two_errors_share_a_code() -> None:
    """A code names one class, so a program that knows the code knows the class."""
    codes = [str(vars(error)["code"]) for error in list_errors() if has_own_code(error)]
    assert len(codes) == len(set(codes)), sorted(code for code in codes if codes.count(code) > 1)


def test_every_error_is_found_at_the_root_of_the_tree() -> None:
    """Each is an OutlastError, but control flow, which no `except Exception` may swallow, and what authors raise."""
    for error in list_errors():
        if not issubclass(error, errors.OutlastError) and error.__name__ not in FOR_AUTHORS:
            assert not issubclass(error, Exception), error.__name__


def test_every_error_can_be_sent_to_another_process_by_class() -> None:
    """Each class is importable by the name it says it has: process pools and journals find it again."""
    for error in list_errors():
        assert pickle.loads(pickle.dumps(error)) is error
