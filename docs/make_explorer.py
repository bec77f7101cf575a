"""Take the pictures of docs/explorer.md from a demo: python docs/make_explorer.py hotvae-demo/explorer.html."""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
DESKTOP, PHONE = (1180, 740), (390, 800)
PLACE = "place=1085"  # a route in the plain of South Carolina
SEEN = "seen=Ovenbird&seen=Scarlet+Tanager"
# What each picture shows: its address, window, and whether the reader's setting is dark.
PICTURES = {
    "map": ("", DESKTOP, False),
    "place": (f"#tab=place&kind=label&species=Wood+Thrush&{PLACE}&seen=Ovenbird", DESKTOP, False),
    "saw": (f"#tab=saw&kind=label&species=Wood+Thrush&{PLACE}&{SEEN}&change=1", DESKTOP, False),
    "together": (f"#tab=together&{PLACE}", DESKTOP, False),
    "what": (f"#tab=what&{PLACE}&move=temperature_year:3&change=1", DESKTOP, False),
    "take": (f"#tab=take&{PLACE}", DESKTOP, False),
    "phone": (f"#tab=saw&{PLACE}&seen=Ovenbird", PHONE, False),
    "dark": ("#kind=label&species=Red-eyed+Vireo", DESKTOP, True),
}


def main() -> None:
    """Open the page once for each picture."""
    page = Path(sys.argv[1]).resolve().as_uri()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (address, (width, height), is_dark) in PICTURES.items():
            tab = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme="dark" if is_dark else "light"
            )
            tab.goto(page + address)
            tab.wait_for_selector("html[data-painted]", timeout=120_000)
            tab.wait_for_timeout(1500)
            taken = Image.open(io.BytesIO(tab.screenshot()))
            taken.convert("RGB").save(IMAGES / f"explorer_{name}.webp", quality=90, method=6)
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
