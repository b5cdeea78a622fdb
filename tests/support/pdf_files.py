"""PDFs for tests, written by hand."""

import io

from pypdf import PdfWriter


def make_pdf(*texts: str, password: str = "", packed: bytes = b"") -> bytes:
    """A PDF with a page for each text, written by hand: it has one font, and its first page may be a packed one."""
    count = len(texts)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(count))}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(texts):
        content = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
        page = f"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R"
        objects.append(f"{page} /MediaBox [0 0 612 792] >>".encode())
        filter, content = (b"/Filter /FlateDecode ", packed) if packed and not number else (b"", content)
        objects.append(b"<< %s/Length %d >>\nstream\n%s\nendstream" % (filter, len(content), content))
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, one in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, one))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    if not password:
        return out.getvalue()
    locked, written = PdfWriter(clone_from=io.BytesIO(out.getvalue())), io.BytesIO()
    locked.encrypt(password, algorithm="RC4-128")
    locked.write(written)
    return written.getvalue()
