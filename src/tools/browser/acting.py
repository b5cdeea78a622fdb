"""What the model can do in the browser, one function for each action, inside the helper. Each has a limit of time."""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ToolFailure
from hermes_base.text.harmless import show_hidden
from hermes_net.proxy_accounts import ProxyAccount
from tools.browser.driver import DriverError, DriverTimeout
from tools.browser.page_view import BadSight, cut_page, find_host
from tools.browser.post_gate import LEAVES, SIGNED_IN, Asker
from tools.browser.task_browser import BrowserTab, TaskBrowser, describe_dialog, shorten

LOOK_SECONDS = 15.0  # to show the page, beside what the action itself may take
USE_SECONDS = 10.0  # until an element can be used
SETTLE_SECONDS = 5.0
WATCH_SECONDS = 0.2
FILE_BYTES = 32 * 1024 * 1024
QUALITY = 75
URL_CHARS = 300
HOST_CHARS = 253  # no name is longer
SCROLL_PIXELS = 640
MIDDLE = (640, 400)
#: Waits until the document has not changed for a moment, at most a second and a half.
_QUIET = """() => new Promise((done) => {
  const end = () => { watch.disconnect(); done(); };
  let timer = setTimeout(end, 100);
  const watch = new MutationObserver(() => { clearTimeout(timer); timer = setTimeout(end, 100); });
  watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  setTimeout(end, 1500);
})"""
_POSITION = """() => { const all = document.scrollingElement || document.documentElement;
  return [Math.round(all.scrollTop), Math.max(0, all.scrollHeight - innerHeight)]; }"""
#: Has the browser save what it shows as a file.
_SAVE = """() => { const link = document.createElement("a"); link.href = location.href; link.download = "";
  document.documentElement.append(link); link.click(); }"""
STUCK = "The page does not answer: its script does not let go. Open another one."
_ANSWER_IT = "Answer it with action dialog: accept true or false, and text for a prompt."
#: Words of the driver, and what they mean to the model.
_MEANINGS = (
    ("Download is starting", "This address is a file. Keep it with action download."),
    ("intercepts pointer events", "Something else on the page covers this element. Close or use that first."),
    ("is not an <input>", "Text cannot be typed into this element."),
    ("did not find some options", "There is no such option; the snapshot lists them."),
    ("is not a <select>", "This is no list to select from; click it instead."),
    ("Unknown key", "There is no such key. Keys are named like Enter, Escape, ArrowDown, Control+A."),
    ("ERR_UNSAFE_PORT", "Browsers open nothing on this port."),
    ("invalid URL", "This is no address of a page."),
    ("ERR_INVALID_AUTH_CREDENTIALS", "The site asks the browser for a name and a password, which it has not."),
    ("ERR_CERT", "The certificate of this site is not valid, so it is not opened."),
    ("ERR_ABORTED", "The page gave up loading."),
    ("ERR_EMPTY_RESPONSE", "The site closed the connection without an answer."),
    ("ERR_UNSAFE_REDIRECT", "The site leads to an address that is not of the web; that is not opened."),
    ("ERR_TOO_MANY_REDIRECTS", "The site sends one from page to page without end."),
    ("ERR_TUNNEL_CONNECTION_FAILED", "The site cannot be reached."),
    ("Target crashed", "The page crashed. Open it again."),
    ("Target closed", "The tab was closed."),
    ("has been closed", "The tab was closed."),
)
_CALL_LOG = re.compile(r"\s*Call log:.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Act:
    """One call of the tool."""

    args: Mapping[str, Any]
    seconds: float
    chars: int  # of the page that are shown
    folder: Path  # where downloads arrive
    proxy: ProxyAccount  # of the task: what another one was refused is not told here
    ask: Asker  # the person
    sign_in: Mapping[str, Any] | None = None  # what is kept of the site that is opened

    @property
    def milliseconds(self) -> float:
        return self.seconds * 1000

    @property
    def use_milliseconds(self) -> float:
        return min(self.seconds, USE_SECONDS) * 1000

    def text(self, name: str = "text") -> str:
        given = self.args.get(name)
        if not isinstance(given, str) or not given:
            raise ToolFailure(f"Action {self.args.get('action')} needs {name}.")
        return given


@dataclass(frozen=True, slots=True)
class ActionDone:
    """What came of it; `shows`: the page as it is now goes along."""

    text: str = ""
    shows: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


async def perform(browser: TaskBrowser, act: Act) -> dict[str, Any]:
    """Do it, and tell what happened meanwhile; ToolFailure when it came to nothing."""
    async with browser.lock:
        browser.begin()
        try:
            async with asyncio.timeout(act.seconds + LOOK_SECONDS) as limit:
                browser.gate.begin(_without_limit(act, limit))
                done = await _act(browser, act)
        except ToolFailure as failure:
            raise ToolFailure(" ".join((str(failure), *browser.take_notes()))) from failure
        except TimeoutError:
            raise ToolFailure(" ".join((_tell_late(browser, act), *browser.take_notes()))) from None
        finally:
            browser.end()
        return await _tell(browser, done)


async def _tell(browser: TaskBrowser, done: ActionDone) -> dict[str, Any]:
    """What Hermes is told: which tab is in front, what happened meanwhile, and what came of the action."""
    tab = browser.tabs.get(browser.current)
    where = (
        f"[tab {tab.number}, {len(browser.tabs)} open] {await tab.title()} {tab.page.url[:URL_CHARS]}" if tab else ""
    )
    notes = [f"Note: {note}" for note in browser.take_notes()]
    text = "\n".join(filter(None, (where, *notes, done.text)))
    text = text.encode("utf-8", "replace").decode()  # half a sign, which pages may hold, cannot be stored
    told = {"text": text, "host": tab.host if tab else "", **done.extra}
    if tab is not None and tab.site:
        told["renewed"] = {"site": tab.site, "cookies": await browser.read_cookies(tab.site)}
    return told


def _without_limit(act: Act, limit: asyncio.Timeout) -> Asker:
    """While a person thinks, the clock of the action stands still."""

    async def ask(what: str, why: str) -> bool:
        loop = asyncio.get_running_loop()
        left = (limit.when() or loop.time()) - loop.time()
        limit.reschedule(None)
        try:
            return await act.ask(what, why)
        finally:
            with suppress(RuntimeError):  # the action is over
                limit.reschedule(loop.time() + left)

    return ask


async def _act(browser: TaskBrowser, act: Act) -> ActionDone:
    action = ACTIONS.get(str(act.args.get("action")))
    if action is None:
        raise ToolFailure(f"There is no action '{act.args.get('action')}'; there are {', '.join(ACTIONS)}.")
    if action is _answer_dialog:
        await _answer_dialog(browser, act)
        held, browser.blocked = browser.blocked, None
        return await _unless_dialog(browser, held or asyncio.ensure_future(_run(_look, browser, act)))
    if browser.dialog is not None:
        if not browser.dialog_told:
            return _tell_dialog(browser)
        browser.note(f"{await browser.answer_dialog(False)} It was dismissed.")
        await _let_go_on(browser)
    return await _unless_dialog(browser, asyncio.ensure_future(_run(action, browser, act)))


async def _run(action: "Action", browser: TaskBrowser, act: Act) -> ActionDone:
    refusals = act.proxy.refusals
    try:
        done = await action(browser, act)
    except DriverError as error:
        refused = act.proxy.explain_last() if act.proxy.refusals > refusals else ""
        is_stuck = isinstance(error, DriverTimeout) and not await _is_alive(browser)
        if is_stuck and action is not _open:
            raise ToolFailure(STUCK) from error
        raise ToolFailure(_explain(error, act, refused)) from error
    late = await settle(browser.tab().page) if done.shows else ""
    if not browser.gate.settled.is_set():
        await browser.gate.settled.wait()  # the page goes on when the person has answered
        late = await settle(browser.tab().page) if done.shows else ""
    if not done.shows:
        return done
    tab = browser.tab()
    return ActionDone("\n".join(filter(None, (done.text, late, await _show(tab, act)))), extra=done.extra)


async def _is_alive(browser: TaskBrowser) -> bool:
    """Whether the page in front answers at all; if not, it is given up."""
    tab = browser.tabs.get(browser.current)
    return tab is None or await tab.answers()


async def _show(tab: BrowserTab, act: Act) -> str:
    try:
        await tab.view.look(tab.page)
    except TimeoutError:
        tab.is_stuck = True
        return STUCK
    except BadSight:
        return "The page cannot be read: it answered with something else than what is on it."
    except DriverError as error:  # it went on, or crashed
        tab.is_stuck = tab.is_stuck or "crash" in str(error).lower()
        return "The page cannot be read just now. Take a snapshot in a moment."
    return cut_page(tab.view.text, 0, act.chars) or "(the page is empty)"


async def settle(page: Any) -> str:
    """Until what an action set off is there: a new document, and a moment without changes; a word if it is not."""
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            for _ in range(2):
                with suppress(DriverError):  # another document came
                    await page.wait_for_load_state("domcontentloaded")
                    await page.evaluate(_QUIET)
                    break
    except TimeoutError:
        return "The page is still loading; action wait waits for it."
    return ""


async def _unless_dialog(browser: TaskBrowser, work: "asyncio.Future[ActionDone]") -> ActionDone:
    """What comes of it, or, when a dialog holds it up, that dialog; it goes on when that is answered."""
    opened = asyncio.ensure_future(browser.dialog_opened.wait())
    try:
        await asyncio.wait((work, opened), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        browser.blocked = work
        return _tell_dialog(browser)
    finally:
        opened.cancel()
        if browser.blocked is not work:
            work.cancel()


def _tell_dialog(browser: TaskBrowser) -> ActionDone:
    browser.dialog_told = True
    return ActionDone(f"{describe_dialog(browser.dialog)} {_ANSWER_IT}", shows=False)


async def _let_go_on(browser: TaskBrowser) -> None:
    """What a dialog held up ends, now that it was answered; nobody waits for what came of it."""
    held, browser.blocked = browser.blocked, None
    if held is not None:
        await asyncio.wait((held,), timeout=SETTLE_SECONDS)
        held.cancel()


def _tell_late(browser: TaskBrowser, act: Act) -> str:
    tab = browser.tabs.get(browser.current)
    if tab is not None:
        tab.is_stuck = True
    return f"The browser was not done within {act.seconds:g} seconds. What was open is still open; try another page."


def _explain(error: Exception, act: Act, refused: str) -> str:
    words = str(error)
    if refused and "net::" in words:
        return refused
    for sign, meaning in _MEANINGS:
        if sign in words:
            return meaning
    if isinstance(error, DriverTimeout):
        if act.args.get("action") == "open":
            return f"The site did not answer within {act.seconds:g} seconds."
        return "The element could not be used in time: it may be covered, hidden, or moving. Take a snapshot."
    return f"The browser could not do it: {shorten(_CALL_LOG.sub('', words))}"


# --- the actions


async def _open(browser: TaskBrowser, act: Act) -> ActionDone:
    url = read_url(act.text("url"))
    tab = await browser.fresh_tab(act.sign_in)
    before = act.proxy.refusals
    try:
        answer = await _go(tab, url, act)
    except DriverTimeout:
        if await tab.answers():
            raise
        tab = await browser.fresh_tab(act.sign_in)  # the page before did not let go of it
        answer = await _go(tab, url, act)
    if answer is not None and answer.status >= 400:
        if act.proxy.refusals > before and answer.status == 403 and (why := act.proxy.explain(tab.host)):
            raise ToolFailure(why)
        return ActionDone(f"The site answered with status {answer.status}.")
    return ActionDone()


async def _go(tab: BrowserTab, url: str, act: Act) -> Any:
    """Until the first of the answer is here. What the page before still does may come in between, once; a tab that
    shows that it failed is not used for another page, since that word of the browser may still be on its way."""
    try:
        return await tab.page.goto(url, wait_until="commit", timeout=act.milliseconds)
    except DriverError as error:
        tab.is_stuck = tab.is_stuck or "net::ERR_" in str(error)
        if "interrupted by another navigation" not in str(error):
            raise
    await settle(tab.page)
    return await tab.page.goto(url, wait_until="commit", timeout=act.milliseconds)


async def _snapshot(browser: TaskBrowser, act: Act) -> ActionDone:
    tab, offset = browser.tab(), act.args.get("offset")
    if not isinstance(offset, int) or offset <= 0:
        return ActionDone()
    return ActionDone(cut_page(tab.view.text, offset, act.chars), shows=False)


async def _click(browser: TaskBrowser, act: Act) -> ActionDone:
    element = await browser.tab().view.find(act.args.get("element"))
    await element.click(timeout=act.use_milliseconds)
    return ActionDone()


#: How a browser is given what it shows in the way of the person's country.
_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "date": "2026-11-20",
        "time": "14:30",
        "datetime-local": "2026-11-20T14:30",
        "month": "2026-11",
        "week": "2026-W47",
    }
)


async def _type(browser: TaskBrowser, act: Act) -> ActionDone:
    """A text takes the place of what is in the field; a line end at its end is the Enter key."""
    tab, text = browser.tab(), act.args.get("text")
    if not isinstance(text, str):
        raise ToolFailure("Action type needs text.")
    enters = text.endswith("\n")
    text = text.removesuffix("\n")
    if act.args.get("element") is None:
        await tab.page.keyboard.insert_text(text)
    else:
        element = await tab.view.find(act.args["element"])
        await element.fill(text, timeout=act.use_milliseconds)
        kind = (await element.get_attribute("type") or "").lower()
        if text and kind in _FORMS and not await element.input_value():
            raise ToolFailure(f"The field did not take it, and is empty now: it takes a {kind} like {_FORMS[kind]}.")
        await element.focus()
    if enters:
        await tab.page.keyboard.press("Enter")
    return ActionDone("" if enters else "Typed.", shows=enters)


async def _select(browser: TaskBrowser, act: Act) -> ActionDone:
    element = await browser.tab().view.find(act.args.get("element"))
    wanted = act.text()
    try:
        await element.select_option(label=wanted, timeout=1000)
    except DriverTimeout:  # it may be the option's value that was meant
        await element.select_option(value=wanted, timeout=1000)
    return ActionDone()


async def _press(browser: TaskBrowser, act: Act) -> ActionDone:
    tab = browser.tab()
    if act.args.get("element") is not None:
        await (await tab.view.find(act.args["element"])).focus()
    await tab.page.keyboard.press(act.text())
    return ActionDone()


async def _scroll(browser: TaskBrowser, act: Act) -> ActionDone:
    tab = browser.tab()
    if act.args.get("element") is not None:
        element = await tab.view.find(act.args["element"])
        await element.scroll_into_view_if_needed(timeout=act.use_milliseconds)
    else:
        await tab.page.mouse.move(*MIDDLE)
        await tab.page.mouse.wheel(0, -SCROLL_PIXELS if act.args.get("text") == "up" else SCROLL_PIXELS)
    await settle(tab.page)
    top, most = await tab.page.evaluate(_POSITION)
    return ActionDone(f"Scrolled to {top} of {most} pixels.")


async def _back(browser: TaskBrowser, act: Act) -> ActionDone:
    page = browser.tab().page
    before = page.url
    await page.go_back(wait_until="commit", timeout=act.milliseconds)
    return ActionDone("There is no page before this one." if page.url == before else "")


async def _tabs(browser: TaskBrowser, act: Act) -> ActionDone:
    """List them; switch to one, or close it."""
    number = act.args.get("tab")
    if number is None and not act.args.get("close"):
        rows = [f"tab {tab.number}: {await tab.title()} {tab.page.url[:URL_CHARS]}" for tab in browser.tabs.values()]
        return ActionDone("\n".join(rows) or "No tab is open.", shows=False)
    tab = browser.tabs.get(browser.current if number is None else number)
    if tab is None:
        raise ToolFailure(f"There is no tab {number}.", fix="Action tabs lists them.")
    if act.args.get("close"):
        await browser.close_tab(tab)
        return ActionDone(f"Tab {tab.number} is closed.", shows=bool(browser.tabs))
    browser.current = tab.number
    await tab.page.bring_to_front()
    return ActionDone()


async def _screenshot(browser: TaskBrowser, act: Act) -> ActionDone:
    page = browser.tab().page
    data = await page.screenshot(type="jpeg", quality=QUALITY, timeout=act.milliseconds)
    return ActionDone(shows=False, extra={"image": base64.b64encode(data).decode()})


async def _download(browser: TaskBrowser, act: Act) -> ActionDone:
    """Of what an element offers, or of an address."""
    if act.args.get("element") is None:
        return await _download_address(browser, act)
    tab = browser.tab()
    element = await tab.view.find(act.args["element"])
    with browser.wanting_download(tab) as wanted:
        await element.click(timeout=act.use_milliseconds)
        download = await _await_download(wanted, act)
    return await _keep(await _fetch(download, act), download.suggested_filename)


async def _await_download(wanted: "asyncio.Future[Any]", act: Act) -> Any:
    try:
        async with asyncio.timeout(act.seconds):
            return await wanted
    except TimeoutError:
        raise ToolFailure("The page offered no file.", fix="Look at it with a snapshot.") from None


async def _download_address(browser: TaskBrowser, act: Act) -> ActionDone:
    """In a tab of its own: a file that the site offers, or what it shows there."""
    url, front = read_url(act.text("url")), browser.current
    with browser.wanting_download(None) as wanted:
        tab = await browser.add_tab(act.sign_in)
        try:
            return await _save_address(tab, url, wanted, act)
        finally:
            await browser.close_tab(tab)
            browser.current = front if front in browser.tabs else browser.current


async def _save_address(tab: BrowserTab, url: str, wanted: "asyncio.Future[Any]", act: Act) -> ActionDone:
    refusals = act.proxy.refusals
    try:
        answer = await _go(tab, url, act)
    except DriverError as error:
        if "Download is starting" not in str(error):
            raise
        download = await _await_download(wanted, act)
        return await _keep(await _fetch(download, act), download.suggested_filename)
    if answer is None or not answer.ok:
        why = act.proxy.explain_last() if act.proxy.refusals > refusals else ""
        raise ToolFailure(why or f"The site answered with status {answer.status if answer else 'none'}.")
    await settle(tab.page)
    await tab.page.evaluate(_SAVE)
    data = await _fetch(await _await_download(wanted, act), act)
    return await _keep(data, urlsplit(tab.page.url).path.rpartition("/")[2])


async def _fetch(download: Any, act: Act) -> bytes:
    """The file when it is whole; one that grows beyond the limit, or takes too long, is given up."""
    whole = asyncio.ensure_future(download.path())
    try:
        async with asyncio.timeout(act.seconds):
            while not (await asyncio.wait((whole,), timeout=WATCH_SECONDS))[0]:
                if _measure(act.folder) > FILE_BYTES:
                    await download.cancel()
                    raise ToolFailure(f"The file is larger than {FILE_BYTES:,} bytes; it is not kept.")
        return await asyncio.to_thread(Path(whole.result()).read_bytes)
    except DriverError as error:
        raise ToolFailure("The file broke off before it was whole; it is not kept.") from error
    except TimeoutError:
        await download.cancel()
        raise ToolFailure(f"The file was not here within {act.seconds:g} seconds; it is not kept.") from None
    finally:
        whole.cancel()
        with suppress(DriverError):  # it was given up, so there is nothing
            await download.delete()


def _measure(folder: Path) -> int:
    """The largest file that arrives."""
    return max((path.stat().st_size for path in folder.rglob("*") if path.is_file()), default=0)


async def _keep(data: bytes, name: str) -> ActionDone:
    if len(data) > FILE_BYTES:
        raise ToolFailure(f"The file has {len(data):,} bytes; up to {FILE_BYTES:,} are kept.")
    return ActionDone(shows=False, extra={"file": {"name": name, "data": base64.b64encode(data).decode()}})


async def _upload(browser: TaskBrowser, act: Act) -> ActionDone:
    """Into a field for files, or through whatever opens one."""
    tab, given = browser.tab(), act.args["file"]
    element = await tab.view.find(act.args.get("element"))
    recipient = await _find_recipient(element)
    upload = ("upload", given["path"], recipient)
    why = SIGNED_IN if tab.site else LEAVES
    if not await browser.gate.may(show_hidden(f"upload {given['path']} to {recipient}"), why, about=upload):
        raise ToolFailure("Nothing was uploaded: the person did not agree to it.")
    file = {"name": given["name"], "mimeType": given["type"], "buffer": base64.b64decode(given["data"])}
    if await element.evaluate("(one) => one.tagName === 'INPUT' && one.type === 'file'"):
        await element.set_input_files(file, timeout=act.use_milliseconds)
        return ActionDone(f"{file['name']} is in the field.")
    async with tab.page.expect_file_chooser(timeout=act.use_milliseconds) as chooser:
        await element.click(timeout=act.use_milliseconds)
    field = await chooser.value
    if await _find_recipient(field.element) != recipient:
        raise ToolFailure("Nothing was uploaded: the page wanted the file for somebody else than who was agreed to.")
    await field.set_files(file, timeout=act.use_milliseconds)
    return ActionDone(f"{file['name']} was chosen.")


async def _find_recipient(element: Any) -> str:
    """Who gets a file that is put there: whoever made the frame of the field, and not the page around it."""
    frame = await element.owner_frame()
    if frame is None:
        raise ToolFailure("The field is not on the page any more.", fix="Take a snapshot.")
    if host := await find_host(frame):
        return host
    while frame.parent_frame:
        frame = frame.parent_frame
    return f"a frame that does not say whose it is, on {urlsplit(frame.url).hostname}"


async def _answer_dialog(browser: TaskBrowser, act: Act) -> ActionDone:
    if browser.dialog is None:
        raise ToolFailure("No dialog is open.")
    text = act.args.get("text")
    accepts = act.args.get("accept") is not False
    browser.note(f"{await browser.answer_dialog(accepts, text)} It was {'accepted' if accepts else 'dismissed'}.")
    return ActionDone()


async def _look(browser: TaskBrowser, act: Act) -> ActionDone:  # noqa: ARG001 - all actions are called alike
    return ActionDone(shows=bool(browser.tabs))


async def _wait(browser: TaskBrowser, act: Act) -> ActionDone:
    """For a text on the page, or until it has loaded."""
    tab, wanted = browser.tab(), act.args.get("text")
    if not wanted:
        with suppress(DriverError):  # it never came to rest
            await tab.page.wait_for_load_state("networkidle", timeout=act.milliseconds)
        return ActionDone()
    with suppress(TimeoutError):
        async with asyncio.timeout(act.seconds):
            while str(wanted).lower() not in (await tab.view.look(tab.page)).lower():
                await settle(tab.page)
            return ActionDone()
    return ActionDone(f'"{shorten(str(wanted))}" did not appear within {act.seconds:g} seconds.')


def read_url(given: str) -> str:
    """An address of the web; anything else is not opened."""
    url = given.strip()
    if re.match(r"[\w-]+(\.[\w-]+)+(:\d+)?(/|$)|localhost(:\d+)?(/|$)", url):
        url = f"https://{url}"
    try:
        parts = urlsplit(url)
        is_web = parts.scheme.lower() in ("http", "https") and 0 < len(parts.hostname or "") <= HOST_CHARS
        is_web = is_web and parts.port != 0
    except ValueError:
        is_web = False
    if not is_web:
        raise ToolFailure("Only addresses with http:// or https:// are opened.")
    return url


Action = Callable[[TaskBrowser, Act], Awaitable[ActionDone]]
ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "open": _open,
        "snapshot": _snapshot,
        "click": _click,
        "type": _type,
        "select": _select,
        "press": _press,
        "scroll": _scroll,
        "back": _back,
        "tabs": _tabs,
        "screenshot": _screenshot,
        "download": _download,
        "upload": _upload,
        "dialog": _answer_dialog,
        "wait": _wait,
    }
)
