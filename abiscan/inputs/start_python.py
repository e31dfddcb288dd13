"""What ``python -c CODE`` and ``python -m MODULE`` do, without the current folder as the first entry of ``sys.path``.

A script, so Python never has that entry: ``-c`` cannot remove it in time, since 3.13 imports ``linecache`` before the
first line (Python/pythonrun.c). ``-P`` and ``PYTHONSAFEPATH`` came with 3.11. ``-I`` would hide ``PYTHONPATH`` and the
user's own site-packages, which belong to the environment. Every Python 3 can run this file.
"""

import sys


def start(option: str, code: str) -> None:
    """Run code, or a module, with the arguments that follow it as ``sys.argv``."""
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the folder of this file
    sys.argv = [option, *sys.argv[3:]]
    if option == "-m":
        import runpy  # noqa: TID251 - in a Python of its own; not before: it is a file

        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        # The names that ``python -c`` gives its code: no __file__, no __spec__.
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - of abiscan itself


if __name__ == "__main__":
    start(sys.argv[1], sys.argv[2])
