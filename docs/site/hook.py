"""What the site needs beside docs/: see README.md in this folder.

Adds as pages the files that the forge shows at their own place (CHANGELOG.md, CONTRIBUTING.md and the README.md of
folders), and the C++ reference that Doxygen has written. Rewrites relative links that leave docs/: to such a page, to
the reference of a public header, to `repo_url` where one is configured, else to the file's path as text. A relative
link to what is not there, and a list that mkdocs would not see, are warnings, and fail the strict build.
"""

import logging
import posixpath
import re
from pathlib import Path
from xml.etree import ElementTree

from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "build/docs-api"
log = logging.getLogger("mkdocs.hooks.links")

# A block or a span of code, or a link: "!" of an image, text, target.
LINK = re.compile(r"^ *(```|~~~).*?^ *\1|(`+)[^`].*?\2|(!?)\[([^\]]*)\]\(([^)\s]+)\)", re.S | re.M)

# What a forge takes for a list and mkdocs does not: without an empty line before it, or nested by less than four spaces.
NO_LIST = re.compile(r"^(?:[^\s|>#*+\d-].*\n(?=[-*+] |\d+\. )| {1,3}(?=[-*+] |\d+\. )).*", re.M)

pages = {}  # path in the repository -> path in the site, of what is added


def on_files(files, config):
    pages.clear()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        pages[name] = name.lower()
    for top in sorted(ROOT.iterdir()):
        if top.name.startswith((".", "build")) or top.name == "docs":
            continue
        for file in [top] if top.is_file() else sorted(top.rglob("README.md")):
            if file.name == "README.md":
                path = file.relative_to(ROOT).as_posix()
                pages[path] = f"source/{path[:-len('README.md')]}index.md"
    for path, uri in pages.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path), inclusion=InclusionLevel.NOT_IN_NAV))
    for file in sorted((API / "html").rglob("*")):
        if file.is_file():
            uri = f"reference/cpp/api/{file.relative_to(API / 'html').as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(file)))
    for entry in ElementTree.parse(API / "tutti.tag").iterfind("compound[@kind='file']"):
        header = Path(entry.findtext("path")) / entry.findtext("name")
        pages[header.relative_to(ROOT).as_posix()] = f"reference/cpp/api/{entry.findtext('filename')}"
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    source = next((path for path, uri in pages.items() if uri == here), f"docs/{here}")

    blocks = LINK.sub(lambda match: "" if match[1] else match[0], markdown)
    for match in NO_LIST.finditer(blocks):
        log.warning(f"{source}: mkdocs sees no list at: {match[0]}")

    def rewrite(match):
        image, text, target = match.group(3, 4, 5)
        link, hash, anchor = (target or "").partition("#")
        if not link or re.match(r"[a-z]+:", link):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if not path.startswith("docs/") and not (ROOT / path).exists():  # mkdocs itself looks at those of docs/
            log.warning(f"{source}: links to {target}, and there is no {path}")
        folder = path if path.endswith(".md") else posixpath.join(path, "README.md")
        uri = pages.get(path) or pages.get(folder)
        if path.startswith("docs/") and not uri:
            uri = path[len("docs/"):]
        if uri:
            return f"{image}[{text}]({posixpath.relpath(uri, posixpath.dirname(here) or '.')}{hash}{anchor})"
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path}{hash}{anchor})"
        return f"`{path}`" if path.endswith(text.strip("`")) else f"{text} (`{path}`)"

    return LINK.sub(rewrite, markdown)
