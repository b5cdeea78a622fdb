"""Files of the browser: what is kept and what is sent goes through the judgement of the file tools (G7)."""

from pathlib import Path

import pytest
from web_surfing import Site, SiteHandler, Surfer, open_site, wait_for

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n%%EOF"


def offer(handler: SiteHandler) -> None:
    handler.answer(b"a,b\n1,2\n", kind="text/csv", content_disposition='attachment; filename="../../my data.csv"')


def test_a_file_is_downloaded_into_the_working_folder(site: Site, surfer: Surfer) -> None:
    """By the element that offers it, under the site's name, which leads nowhere else, or the one that is asked for."""
    site.pages = {"/": "<a href='/data'>Data</a>", "/data": offer}
    surfer.open(site.url)
    number = surfer.find("Data")
    told = surfer.do("download", element=number)
    name = next(path.name for path in surfer.folder.iterdir())
    assert name.endswith("my data.csv")
    assert told == f"Downloaded {surfer.folder / name} (8 bytes)."
    assert (surfer.folder / name).read_bytes() == b"a,b\n1,2\n"
    (surfer.folder / "kept").mkdir()
    surfer.do("download", element=number, path="kept")
    surfer.do("download", element=number, path="new/own.csv")
    assert [path.name for path in (surfer.folder / "kept").iterdir()] == [name]
    assert (surfer.folder / "new" / "own.csv").read_bytes() == b"a,b\n1,2\n"
    assert "the web page 127.0.0.1" in surfer.foreign.origins


def test_an_address_is_downloaded_whether_it_is_offered_or_shown(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<p>front</p>", "/data": offer, "/doc.pdf": lambda h: h.answer(PDF, kind="application/pdf")}
    surfer.open(site.url)
    assert surfer.do("download", url=f"{site.url}/doc.pdf").startswith("Downloaded")
    assert (surfer.folder / "doc.pdf").read_bytes() == PDF
    assert surfer.do("download", url=f"{site.url}/data", path="x.csv").startswith("Downloaded")
    assert "answered with status 404" in surfer.do("download", url=f"{site.url}/nowhere")
    assert "which is never called" in surfer.do("download", url="http://169.254.169.254/x")
    assert surfer.do("snapshot").startswith(f"[tab 1, 1 open]  {site.url}/\nfront")


def test_a_download_that_nobody_asked_for_is_told_and_not_kept(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<a href='/data'>Data</a><a href='/'>Same</a>", "/data": offer}
    surfer.open(site.url)
    told = surfer.click("Data") + surfer.do("snapshot")
    assert "The page offered the file" in told
    assert list(surfer.folder.iterdir()) == []
    surfer.config["browser"] = {"timeout": 1}
    assert surfer.do("download", element=surfer.find("Same")).startswith("failed: The page offered no file.")


def pour(handler: SiteHandler) -> None:
    """A file that does not end."""
    handler.send_response(200)
    handler.send_header("content-disposition", "attachment; filename=endless.bin")
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 20))


def break_off(handler: SiteHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-disposition", "attachment; filename=half.bin")
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(bytes(10))
    handler.close_connection = True


def test_a_file_that_does_not_end_or_breaks_off_is_told(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<a href='/pour'>Pour</a><a href='/half'>Half</a>", "/pour": pour, "/half": break_off}
    surfer.open(site.url)
    told = surfer.do("download", element=surfer.find("Pour"))
    assert told == "failed: The file is larger than 33,554,432 bytes; it is not kept."
    told = surfer.do("download", element=surfer.find("Half"))
    assert told == "failed: The file broke off before it was whole; it is not kept."
    assert list(surfer.folder.iterdir()) == []


def test_a_port_that_browsers_do_not_open_is_told(surfer: Surfer) -> None:
    assert surfer.open("http://127.0.0.1:25/") == "failed: Browsers open nothing on this port."


def test_a_download_replaces_nothing_unread_and_asks_outside(site: Site, surfer: Surfer, home: Path) -> None:
    """G7: a path outside of the allowed folders is asked for; the answer is no."""
    site.pages = {"/": "<a href='/data'>Data</a>", "/data": offer}
    surfer.open(site.url)
    number = surfer.find("Data")
    (surfer.folder / "mine.csv").write_text("mine")
    told = surfer.do("download", element=number, path="mine.csv")
    assert told.startswith("failed: ")
    assert "exists and was not read" in told
    assert (surfer.folder / "mine.csv").read_text() == "mine"
    assert surfer.do("download", element=number, path="/usr/share/x.csv").startswith("failed: ")
    assert len(surfer.asked) == 1
    assert surfer.do("download", element=number, path=str(home / "config.yaml")).startswith("failed: ")


def test_a_file_is_uploaded_from_the_working_folder(site: Site, surfer: Surfer) -> None:
    """Into a field, and through a button that opens a hidden one."""
    site.pages["/"] = """<form method=post enctype="multipart/form-data" action="/take"><label>File
    <input type=file name=f></label><button>Send</button></form>
    <input type=file id=picker style="display:none" onchange="out.append(this.files[0].name)">
    <button onclick="picker.click()">Choose</button><p id=out></p>"""
    site.pages["/take"] = "<p>taken</p>"
    (surfer.folder / "letter.txt").write_text("dear all")
    surfer.answer = "approve"
    surfer.open(site.url)
    assert "letter.txt is in the field." in surfer.do("upload", element=surfer.find("file: File"), path="letter.txt")
    assert "letter.txt" in surfer.do("upload", element=surfer.find("Choose"), path="letter.txt").rpartition("Choose")[2]
    assert "taken" in surfer.click("Send")
    (sent,) = [one for one in site.asked if one.method == "POST"]
    assert b'filename="letter.txt"' in sent.body
    assert b"dear all" in sent.body


def test_what_is_uploaded_is_judged(site: Site, surfer: Surfer, home: Path) -> None:
    """G7: links are resolved, secrets are asked for, files of Hermes are never sent."""
    site.pages["/"] = "<input type=file aria-label=File onchange='out.append(this.files[0].name)'><p id=out></p>"
    surfer.open(site.url)
    number = surfer.find("File")
    (surfer.folder / ".env").write_text("KEY=1")
    (surfer.folder / "plain.txt").symlink_to(surfer.folder / ".env")
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("x: 1")
    for path in (".env", "plain.txt", str(home / "config.yaml"), "/etc/passwd", "missing.txt"):
        assert surfer.do("upload", element=number, path=path).startswith("failed: ")
    assert len(surfer.asked) == 3
    assert "env" not in surfer.do("snapshot")
    surfer.answer = "approve"
    assert ".env is in the field." in surfer.do("upload", element=number, path=".env")


def test_a_file_is_given_to_no_site_without_a_question(site: Site, surfer: Surfer) -> None:
    """G4, G9: a page may have asked for it; the file and the host are named, and a no leaves the page without it."""
    site.pages["/"] = """<input type=file aria-label=File onchange='out.append(this.files[0].name)'>
    <button onclick="document.querySelector('input').click()">Choose</button><p id=out></p>"""
    (surfer.folder / "letter.txt").write_text("dear all")
    surfer.open(site.url)
    for label in ("File", "Choose"):
        told = surfer.do("upload", element=surfer.find(label), path="letter.txt")
        assert told == "failed: Nothing was uploaded: the person did not agree to it."
        question = surfer.asked.pop()
        assert question.text == f"upload {surfer.folder / 'letter.txt'} to 127.0.0.1"
        assert "given to a site" in question.reason
        assert "you are signed in" not in question.reason
        assert not question.choices or "always" not in question.choices
    assert surfer.asked == []
    assert "letter" not in surfer.do("snapshot")


FIELD = "<input type=file aria-label=File>"
NOBODY = "a frame that does not say whose it is, on 127.0.0.1"


@pytest.mark.parametrize(
    ("inner", "named"),
    [
        (f"<iframe srcdoc='{FIELD}'></iframe>", "127.0.0.3"),
        (f"<iframe></iframe><script>frames[0].document.body.innerHTML = '{FIELD}'</script>", "127.0.0.3"),
        (f"<script>location = 'javascript:\"{FIELD}\"'</script>", "127.0.0.3"),
        (f"<script>location = URL.createObjectURL(new Blob(['{FIELD}'], {{type: 'text/html'}}))</script>", "127.0.0.3"),
        (f"<script>self.origin = '{'http://127.0.0.1'}'</script><iframe srcdoc='{FIELD}'></iframe>", "127.0.0.3"),
        (f"<script>location = 'data:text/html,{FIELD}'</script>", NOBODY),
        (f"<iframe sandbox srcdoc='{FIELD}'></iframe>", NOBODY),
    ],
)
def test_an_upload_names_whose_frame_it_is(site: Site, surfer: Surfer, inner: str, named: str) -> None:
    """G4: a frame without an address belongs to whoever made it, and not to the page around it."""
    with open_site("127.0.0.3") as other:
        surfer.config["network"] = {"private": ["127.0.0.0/8"]}
        other.pages["/"] = inner
        site.pages["/"] = f"<p>here</p><iframe src='{other.url}/'></iframe>"
        (surfer.folder / "letter.txt").write_text("dear all")
        surfer.open(site.url)
        surfer.do("wait", text="File")
        surfer.do("upload", element=surfer.find("File"), path="letter.txt")
        assert [one.text.partition(" to ")[2] for one in surfer.asked] == [named]


def test_a_file_goes_to_nobody_else_than_who_was_agreed_to(site: Site, surfer: Surfer) -> None:
    """G4: the button in a frame is what the person was asked about; the page around opens a field of its own."""
    with open_site("127.0.0.3") as other:
        surfer.config["network"] = {"private": ["127.0.0.0/8"]}
        surfer.answer = "approve"
        other.pages["/"] = "<button onclick='parent.postMessage(1, \"*\")'>Choose</button>"
        site.pages["/"] = f"""<iframe src='{other.url}/'></iframe><input type=file id=mine style="display:none">
        <script>onmessage = () => mine.click()</script>"""
        (surfer.folder / "letter.txt").write_text("dear all")
        surfer.open(site.url)
        told = surfer.do("upload", element=surfer.find("Choose"), path="letter.txt")
        assert [one.text.partition(" to ")[2] for one in surfer.asked] == ["127.0.0.3"]
        assert (
            told == "failed: Nothing was uploaded: the page wanted the file for somebody else than who was agreed to."
        )


@pytest.mark.parametrize("by", ["element", "address"])
def test_another_tab_does_not_put_its_file_in_the_place_of_the_one_that_is_wanted(
    site: Site, surfer: Surfer, by: str
) -> None:
    """G4: a page in the background offers files all the time."""
    begun = iter(range(1000))

    def slow(handler: SiteHandler) -> None:
        offered = next(begun)
        while next(begun) < offered + 5:  # offers of the other tab come meanwhile
            site.hold.wait(0.05)
        offer(handler)

    def sly(handler: SiteHandler) -> None:
        next(begun)
        handler.answer(b"sly", kind="text/csv", content_disposition="attachment; filename=sly.csv")

    link = "<a id=a href='/sly'></a><script>setInterval(() => a.click(), 50)</script>"
    site.pages = {"/": f"<a href='/front' target=_blank>On</a>{link}", "/sly": sly, "/data": slow}
    site.pages["/front"] = "<a href='/data'>Data</a>"
    surfer.open(site.url)
    surfer.click("On")
    wait_for(lambda: f"{site.url}/front" in surfer.do("tabs"))
    surfer.do("tabs", tab=2)
    args = {"url": f"{site.url}/data"} if by == "address" else {"element": surfer.find("Data")}
    assert "data.csv (8 bytes)" in surfer.do("download", **args)
    assert [path.read_bytes() for path in surfer.folder.iterdir()] == [b"a,b\n1,2\n"]
