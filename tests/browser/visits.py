"""Pages that are open in a browser, with what is drawn on them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "screenshots"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1180, "height": 820}
A4 = {"width": 718, "height": 1040}  # without its margins
# Notes what is drawn on canvases: texts, circles, and images that are made pixel by pixel.
WATCH = """(() => {
  window.drawn = { texts: [], circles: [], strokes: [], images: 0 };
  const pen = CanvasRenderingContext2D.prototype, { fillText, arc, stroke, putImageData } = pen;
  pen.fillText = function (words, x, y) {
    const { width } = this.measureText(words), turned = this.getTransform().b !== 0;
    drawn.texts.push({ words, x, y, width, turned, align: this.textAlign, color: this.fillStyle });
    return fillText.apply(this, arguments);
  };
  pen.arc = function (x, y, r) { drawn.circles.push(r); return arc.apply(this, arguments); };
  pen.stroke = function () {
    drawn.strokes.push([this.strokeStyle, Math.round(10 * this.lineWidth) / 10]);
    return stroke.apply(this, arguments);
  };
  pen.putImageData = function () { drawn.images++; return putImageData.apply(this, arguments); };
})()"""


class Visit:
    """A page, and everything that went wrong while it was open."""

    def __init__(self, browser, path, *, viewport=None, color_scheme="light", touch=False):
        self.context = browser.new_context(
            viewport=viewport or DESK, color_scheme=color_scheme, device_scale_factor=1,
            has_touch=touch, is_mobile=touch,
        )  # fmt: skip
        self.context.add_init_script(WATCH)
        self.page, self.wrong = self.context.new_page(), []
        self.page.on("console", self._message)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append("dialog"), dialog.dismiss()))
        self.page.on("request", self._request)
        self.home = path.as_uri()
        self.page.goto(self.home)

    def _message(self, message):
        if message.type == "error":
            self.wrong.append(message.text)

    def _request(self, request):
        if not request.url.startswith(("data:", "file:")):
            self.wrong.append(request.url)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def shot(self, name, *, full=True):
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=full)

    def pixels(self, color):
        """How many pixels of the first canvas have exactly this colour."""
        return self.page.evaluate(
            """color => {
                const c = document.querySelector("canvas"), wanted = [1, 3, 5].map(
                    i => parseInt(color.slice(i, i + 2), 16));
                const copy = new OffscreenCanvas(c.width, c.height);
                const pen = copy.getContext("2d", { willReadFrequently: true });
                pen.drawImage(c, 0, 0);
                const d = pen.getImageData(0, 0, c.width, c.height).data;
                let n = 0;
                for (let i = 0; i < d.length; i += 4)
                    n += d[i + 3] === 255 && wanted.every((v, j) => d[i + j] === v);
                return n;
            }""",
            color,
        )

    def css(self, name):
        return self.page.evaluate(
            "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name)", name
        )

    def ticks(self):
        """The texts of the ticks of both axes: first x, then y."""
        found = self.page.evaluate("() => drawn.texts.filter(t => !t.turned)")
        height = self.page.evaluate("() => document.querySelector('canvas').clientHeight")
        across = [t for t in found if t["align"] == "center" and t["y"] > height - 40]
        names = self.page.evaluate(
            "() => JSON.parse(document.querySelector('figure.scatter script').textContent).axes"
        )
        across = [t for t in across if t["words"] not in names]
        return across, [t for t in found if t["align"] == "right"]

    def settle(self):
        self.page.evaluate("() => new Promise(f => requestAnimationFrame(() => setTimeout(f)))")
