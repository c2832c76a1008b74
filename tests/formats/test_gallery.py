"""The gallery: one page about many results."""

from tests.fakes.predicted import box_before_a_wall, predicted
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.formats import gallery


def test_an_entry_links_to_the_viewer_and_escapes_names(tmp_path):
    files = [tmp_path / "a b_depth.png", tmp_path / "a b_viewer.html"]
    entry = gallery.describe("<a> b.jpg", predicted(box_before_a_wall()), files, tmp_path)
    page = gallery.render([entry], "rooms & desks", ["indoor"]).decode()
    assert 'href="a%20b_viewer.html"' in page
    assert "&lt;a&gt; b.jpg" in page
    assert "rooms &amp; desks" in page
    assert "2.00 to 4.00 m" in page
    assert "badge" not in page.partition("<main>")[2]
    assert page.count("data:image/jpeg;base64,") == 2
    assert "http" not in page.replace("http-equiv", "")  # nothing is loaded from elsewhere
    files = [tmp_path / "walk_depth.mp4", tmp_path / "walk_depth.json"]
    clip = gallery.describe("walk.mp4", predicted(box_before_a_wall()), files, tmp_path, "1.0 s")
    assert 'href="walk_depth.mp4"' in clip
    assert '<span class="badge">1.0 s</span>' in clip


def test_other_pages_are_not_overwritten(tmp_path):
    page = tmp_path / gallery.NAME
    gallery.check_free(page)
    page.write_bytes(gallery.render([], "empty", []))
    gallery.check_free(page)
    page.write_text("<html>mine</html>")
    with refused(InputError, page):
        gallery.check_free(page)
