"""What the tests of the page do with it."""

from __future__ import annotations

from collections.abc import Callable

from tests.page.fake_api import CONNECTION, inbox
from tests.page.host import Host, Request
from tools.browser import PATIENCE_SECONDS

HOSTILE = (
    "<script>globalThis.hacked = true</script> \"quoted\" 'Ünïcode' 码 \u202e<img src=x onerror=hacked=1>"
)
CONTRAST = """
() => {
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const brush = canvas.getContext("2d", {willReadFrequently: true});
  const over = (colors) => {
    brush.clearRect(0, 0, 1, 1);
    for (const each of colors) { brush.fillStyle = each; brush.fillRect(0, 0, 1, 1); }
    return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const colors = [];
    for (let each = element; each; each = each.parentElement) {
      colors.unshift(getComputedStyle(each).backgroundColor);
    }
    return colors;
  };
  const texts = [...document.querySelectorAll(".wf-root *")].filter((each) =>
    each.checkVisibility() && !each.closest("style,svg,option") &&
    [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((each) => {
    const colors = behind(each);
    const [a, b] = [light(over(colors)), light(over([...colors, getComputedStyle(each).color]))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return [each.innerText.slice(0, 40), Math.round(ratio * 100) / 100];
  });
}
"""
"""The contrast of each text to what is behind it, as WCAG defines it."""


def at(number: int = 1, more: str = "") -> str:
    """The query string of the page of an inbox."""
    return f"connection={CONNECTION}&inbox={inbox(number)['id']}{more}"


def posts(host: Host) -> list[Request]:
    return [request for request in host.requests if request.method == "POST"]


def wait_until(page, condition: Callable[[], bool]) -> None:
    """Let the browser go on until something holds that only this process can see."""
    for _ in range(int(PATIENCE_SECONDS * 10)):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never held")
