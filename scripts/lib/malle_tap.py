"""malle_tap.py - the few lines that tests in Python share.

A test is a function whose docstring is the sentence that it shows.  run() calls
each, prints `ok - sentence` or `not ok - sentence` with the reason, and returns
the exit code.
"""

import os
import sys
import traceback


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def run(tests):
    failed = 0
    only = sys.argv[1:]
    for test in tests:
        if only and test.__name__ not in only:
            continue
        try:
            test()
            print("ok - %s" % test.__doc__, flush=True)
        except Exception as why:  # a broken test is a failed one
            failed += 1
            print("not ok - %s\n#   %s" % (test.__doc__, why), flush=True)
            if os.environ.get("MALLE_TRACE") or not isinstance(why, AssertionError):
                traceback.print_exc(file=sys.stdout)
    return 1 if failed else 0
