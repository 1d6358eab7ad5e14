"""Spreadsheets written by hand, as small as programs read them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_XML = '<?xml version="1.0"?>'
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_ODS = "urn:oasis:names:tc:opendocument:xmlns"


def write_xlsx(
    path: Path, sheets: Mapping[str, Sequence[Sequence[str]]], merged: str = ""
) -> Path:
    """Write sheets of texts; a cell that begins with < is XML that stands for its own content."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", f"{_XML}<Types/>")
        archive.writestr(
            "_rels/.rels",
            f'{_XML}<Relationships xmlns="{_RELATIONS}"><Relationship Id="r" '
            f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        entries = ""
        relations = ""
        for number, (name, rows) in enumerate(sheets.items(), 1):
            part = f"worksheets/part{number + 3}.xml"
            entries += f'<sheet name="{name}" sheetId="{number}" r:id="x{number}"/>'
            relations += f'<Relationship Id="x{number}" Type="{_OFFICE}/worksheet" Target="{part}"/>'
            end = (
                f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>'
                if merged
                else ""
            )
            data = "".join(_xlsx_row(index, row) for index, row in enumerate(rows, 1))
            archive.writestr(
                f"xl/{part}",
                f'{_XML}<worksheet xmlns="{_MAIN}"><sheetData>{data}</sheetData>{end}</worksheet>',
            )
        archive.writestr(
            "xl/workbook.xml",
            f'{_XML}<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{entries}</sheets></workbook>',
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'{_XML}<Relationships xmlns="{_RELATIONS}">{relations}</Relationships>',
        )
    return path


def _xlsx_row(number: int, cells: Sequence[str]) -> str:
    written = ""
    for column, cell in zip("ABCDEFGH", cells, strict=False):
        name = f'r="{column}{number}"'
        if cell.startswith("<"):
            written += f"<c {name}>{cell}</c>"
        elif cell:
            written += f'<c {name} t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    return f'<row r="{number}">{written}</row>'


def write_ods(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    """Write one sheet of texts."""
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    data = "".join(
        f"<table:table-row>{''.join(cell.format(escape(text)) for text in row)}</table:table-row>"
        for row in rows
    )
    names = " ".join(
        f'xmlns:{name}="{_ODS}:{name}:1.0"' for name in ("office", "table", "text")
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr(
            "META-INF/manifest.xml",
            f'{_XML}<m:manifest xmlns:m="{_ODS}:manifest:1.0">'
            f'<m:file-entry m:full-path="/" m:media-type="{kind}"/></m:manifest>',
        )
        archive.writestr(
            "content.xml",
            f"{_XML}<office:document-content {names}><office:body><office:spreadsheet>"
            f'<table:table table:name="T">{data}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return path
