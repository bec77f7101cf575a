"""A model explained on one page: an HTML file that needs nothing else and opens from disk."""

from hotvae.report.content import PageContent, PageRows, gather_content
from hotvae.report.writing import page_html, write_page

__all__ = ["PageContent", "PageRows", "gather_content", "page_html", "write_page"]
