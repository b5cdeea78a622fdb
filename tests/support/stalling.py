"""What stands still in the tests of stalls, and how long anybody else may be kept waiting by it.

The limits are parameters, and generous: other work on the machine must not decide what a test says."""

#: Everybody else is served within a second; the rest is for a machine that has other things to do, too.
SERVED_SECONDS = 20.0
#: Everything goes on within ten seconds of a thaw.
THAW_SECONDS = 30.0
