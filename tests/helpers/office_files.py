"""Small documents of office programs, and their structure, read without Regard."""

from __future__ import annotations

import io
import zipfile
from xml.etree import ElementTree

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
MAIN = (
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
)
KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml.{}+xml"
NAMESPACES = (
    f'xmlns:w="{W}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    f'xmlns:text="{TEXT}" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:officeooo="http://openoffice.org/2009/office" '
    'xmlns:xlink="http://www.w3.org/1999/xlink"'
)
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'


def package(members: dict[str, str | bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a package of members, with times in their order."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for number, (name, content) in enumerate(members.items()):
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 2 * number))
            info.compress_type = zipfile.ZIP_STORED if name == "mimetype" else kind
            archive.writestr(info, content)
    return file.getvalue()


def docx(body: str, **parts: str) -> bytes:
    """Return a Word document; `parts` are members by their names, such as footnotes."""
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{KIND.format(name)}"/>'
        for name in parts
    )
    members: dict[str, str | bytes] = {
        "[Content_Types].xml": (
            f'{HEAD}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/>{overrides}</Types>'
        ),
        "_rels/.rels": f"{HEAD}<Relationships/>",
        "word/document.xml": (
            f"{HEAD}<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
        ),
        "word/media/image1.png": b"\x89PNG no picture" * 50,
    }
    for name, content in parts.items():
        members[f"word/{name}.xml"] = (
            f"{HEAD}<w:{name} {NAMESPACES}>{content}</w:{name}>"
        )
    return package({**members, "docProps/app.xml": f"{HEAD}<Properties/>"})


def odt(body: str, styles: str = "", manifest: str = "") -> bytes:
    """Return a text of LibreOffice; `styles` are its automatic ones."""
    return package(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": (
                f"{HEAD}<office:document-content {ODF}><office:automatic-styles>{styles}"
                f"</office:automatic-styles><office:body><office:text>{body}</office:text>"
                "</office:body></office:document-content>"
            ),
            "styles.xml": f"{HEAD}<office:document-styles {ODF}/>",
            "META-INF/manifest.xml": f"{HEAD}{MANIFEST}<manifest>{manifest}</manifest>",
        }
    )


def read_member(data: bytes, name: str = "word/document.xml") -> str:
    """Return a member as text."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return archive.read(name).decode()


def tree(data: bytes, name: str = "word/document.xml") -> ElementTree.Element:
    """Return a member as XML."""
    return ElementTree.fromstring(read_member(data, name))


MANIFEST = '<!DOCTYPE manifest PUBLIC "-//OpenOffice.org//DTD Manifest 1.0//EN" "Manifest.dtd">'
WORDS = ("r", "t", "rPr", "proofErr", "noBreakHyphen", "softHyphen")
RUNS = {*(f"{{{W}}}{name}" for name in WORDS), f"{{{TEXT}}}span"}


def skeleton(element: ElementTree.Element) -> list[object]:
    """Return all but runs and text: elements with their attributes, those of a paragraph in no
    order.
    """
    parts = list[object]()
    for child in element:
        inner = skeleton(child)
        is_space = child.tag == f"{{{TEXT}}}s" and not child.attrib
        if child.tag in RUNS or is_space:
            parts += [] if child.tag == f"{{{W}}}rPr" else inner
        else:
            parts.append((child.tag, sorted(child.attrib.items()), inner))
    is_paragraph = element.tag.rpartition("}")[2] in ("p", "h")
    return sorted(parts, key=repr) if is_paragraph else parts
