"""The helper of the browser, in a hurry: what it does after minutes it does after a moment."""

from tools.browser import helper

helper.CHORE_SECONDS = 0.1
helper.UNUSED_SECONDS = 0.2
if __name__ == "__main__":
    helper.main()
