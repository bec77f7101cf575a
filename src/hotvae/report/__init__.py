"""Pages and plots: HTML files that need nothing else and open from disk, and figures of what a model says."""

from hotvae.report.page import DemoContent, ExplainContent, page_html, write_page

__all__ = ["DemoContent", "ExplainContent", "page_html", "write_page"]
