// Scatter plots on a canvas: points of clusters, their centres, arrows for points outside.
// Coordinates are 16-bit numbers: 1 to 65534 across the frame, 0 and 65535 are beyond it.
for (const figure of document.querySelectorAll("figure.scatter")) (() => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d");
  const numbers = (name, Type) => data[name]
    ? new Type(Uint8Array.from(atob(data[name]), (c) => c.charCodeAt(0)).buffer) : new Type(0);
  const points = numbers("points", Uint16Array);
  const labels = numbers("labels", data.many ? Uint32Array : Uint16Array);
  const radii = numbers("radii", Uint8Array), rows = numbers("rows", Uint32Array);
  const values = numbers("values", Float32Array);
  const edges = numbers("edges", Uint16Array), land = numbers("land", Uint16Array);
  const centers = numbers("centers", Uint16Array);
  const { clusters, limits, axes, columns } = data;
  const n = labels.length, k = clusters.length;
  const hidden = new Array(k).fill(false);
  const byCluster = Array.from({ length: k }, () => []);
  for (let i = 0; i < n; i++) byCluster[labels[i]].push(i);
  let size = { w: 0, h: 0 }, frame, colors, marks, picked = -1, singled = -1;

  const outside = (v) => v === 0 || v === 65535;
  const part = (v) => Math.max(0, Math.min(1, (v - 1) / 65533));
  const X = (v) => frame.x + part(v) * frame.w, Y = (v) => frame.y + (1 - part(v)) * frame.h;
  // A number with four digits, or more if a range of this width needs them; as number() in page.py.
  const power = (v) => Math.floor(Math.log10(v) + 1e-9);
  const show = (v, width) => {
    const a = Math.abs(v), more = width > 0 && a > 0 ? Math.max(0, power(a) - power(width)) : 0;
    if (v === 0) return "0";
    if (a >= 1e15 || a < 1e-4)
      return v.toExponential(Math.min(15, 3 + more)).replace(/\.?0*e/, "e").replaceAll("-", "−");
    const places = Math.max(0, Math.min(15, 3 + more - power(a)));
    return v.toLocaleString("en", { maximumFractionDigits: places }).replace("-", "−");
  };
  const measure = (i, a) => limits[a][0] + part(points[2 * i + a]) * (limits[a][1] - limits[a][0]);

  function mark(x, y, r, shape) {
    if (shape === "square") pen.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
    else if (shape === "triangle") lines(x, y, r * 1.25, [0, -1, 0.9, 0.65, -0.9, 0.65]);
    else if (shape === "diamond") lines(x, y, r * 1.3, [0, -1, 0.95, 0, 0, 1, -0.95, 0]);
    else if (shape === "cross") lines(x, y, r * 1.15, CROSS);
    else { pen.moveTo(x + r, y); pen.arc(x, y, r, 0, 7); }
  }
  const CROSS = [-0.36, -1, 0.36, -1, 0.36, -0.36, 1, -0.36, 1, 0.36, 0.36, 0.36, 0.36, 1, -0.36, 1,
    -0.36, 0.36, -1, 0.36, -1, -0.36, -0.36, -0.36];
  function lines(x, y, r, corners) {
    for (let i = 0; i < corners.length; i += 2)
      pen[i ? "lineTo" : "moveTo"](x + r * corners[i], y + r * corners[i + 1]);
    pen.closePath();
  }
  function arrow(places, i, r) { // at the frame, in the direction of a place outside
    const a = places[2 * i], b = places[2 * i + 1];
    const dx = a === 0 ? -1 : a === 65535 ? 1 : 0, dy = b === 0 ? 1 : b === 65535 ? -1 : 0;
    const l = Math.hypot(dx, dy), ux = dx / l, uy = dy / l, x = X(a) - ux * r, y = Y(b) - uy * r;
    pen.moveTo(x + ux * r, y + uy * r);
    pen.lineTo(x - ux * r - uy * r * 0.8, y - uy * r + ux * r * 0.8);
    pen.lineTo(x - ux * r + uy * r * 0.8, y - uy * r - ux * r * 0.8);
    pen.closePath();
    return { x: x - 2.2 * ux * r, y: y - 2.2 * uy * r }; // beside it, inside the frame
  }

  const TICK = "12px system-ui, sans-serif";
  const widest = (words) => Math.max(0, ...words.map((word) => pen.measureText(word).width));

  function layout() {
    const w = Math.max(200, canvas.parentElement.clientWidth); // 0 while it is not laid out
    const narrow = w < 560, bottom = data.degrees ? 27 : 44, top = 14, name = data.degrees || !axes[1] ? 6 : 22;
    pen.font = TICK;
    let left = narrow ? 46 : 62, right = 16, h = 0;
    for (let pass = 0; pass < 2; pass++) { // the room for ticks depends on their labels
      const inner = w - left - right, wanted = data.aspect ? inner / data.aspect : inner * (narrow ? 0.95 : 0.6);
      h = Math.round(Math.max(data.aspect ? 110 : 240, Math.min(640, wanted)));
      frame = { x: left, y: top, w: inner, h };
      if (data.aspect && inner / h > data.aspect) { // equal units: narrower than the stage
        frame.w = h * data.aspect;
        frame.x = left + (inner - frame.w) / 2;
      }
      marks = [ticksOf(0, frame.w), ticksOf(1, frame.h)];
      left = Math.ceil(Math.min(w / 2, name + 9 + Math.max(widest(marks[1].words), axes[1] ? 0 : 20)));
      right = Math.ceil(Math.max(14, widest(marks[0].words) / 2 + 4));
    }
    const inner = w - left - right;
    frame.w = data.aspect ? Math.min(inner, h * data.aspect) : inner;
    frame.x = left + (inner - frame.w) / 2;
    marks = [ticksOf(0, frame.w), ticksOf(1, frame.h)];
    size = { w, h: h + top + bottom };
    const dense = devicePixelRatio || 1;
    canvas.width = Math.round(size.w * dense);
    canvas.height = Math.round(size.h * dense);
    canvas.style.height = size.h + "px";
    pen.setTransform(dense, 0, 0, dense, 0, 0);
  }

  function ticks(low, high, step) {
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
    return { step, found };
  }
  const DEGREES = [6, 10, 15, 20, 30, 45, 60, 90, 180];
  function stepsOf(width, factors) { // from small to large
    const ten = 10 ** power(width), found = [0.01, 0.1, 1].flatMap((p) => factors.map((f) => f * p * ten));
    return data.degrees ? [...found.filter((s) => s <= 5), ...DEGREES] : found;
  }
  function tickWords(a, { step, found }) { // all with the decimals of the step, so that they differ
    const most = Math.max(0, ...found.map(Math.abs)), exact = step / 10 ** power(step) % 1 > 1e-6 ? 1 : 0;
    const places = Math.max(0, exact - power(step));
    const word = (v) => (most >= 1e15 || places > 9
      ? v.toExponential(Math.min(15, Math.max(0, power(most) - power(step) + exact)))
      : v.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places })).replaceAll("-", "−");
    const side = (v) => Math.abs(v) < step / 1e6 ? "" : (a ? "SN" : "WE")[v > 0 ? 1 : 0];
    return found.map((v) => data.degrees ? word(Math.abs(v)) + "°" + side(v) : word(Math.abs(v) < step / 1e6 ? 0 : v));
  }
  function ticksOf(a, length) { // as many as fit, and at least three if they do
    if (!axes[a]) return { found: [], words: [] };
    const [low, high] = limits[a], most = Math.max(4, Math.floor(length / (a ? 60 : 90)));
    let best = { found: [], words: [] };
    for (const factors of [[1, 2, 2.5, 5], [1, 2, 3, 4, 5, 6, 7, 8]]) {
      for (const step of stepsOf(high - low, factors)) {
        if (length * step / (high - low) < 18) continue;
        const tried = ticks(low, high, step), words = tickWords(a, tried), room = a ? 18 : widest(words) + 8;
        const fits = length * step / (high - low) >= room && tried.found.length <= most + 1;
        if (fits && tried.found.length > best.found.length) best = { ...tried, words };
      }
      if (best.found.length >= 3) break;
    }
    return best;
  }

  function drawAxes() {
    pen.font = TICK;
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    for (const a of [0, 1]) marks[a].found.forEach((t, i) => {
      const [low, high] = limits[a], s = (t - low) / (high - low), word = marks[a].words[i];
      pen.strokeStyle = colors.line;
      pen.beginPath();
      if (a) { const y = frame.y + (1 - s) * frame.h; pen.moveTo(frame.x, y); pen.lineTo(frame.x + frame.w, y); }
      else { const x = frame.x + s * frame.w; pen.moveTo(x, frame.y); pen.lineTo(x, frame.y + frame.h); }
      pen.stroke();
      pen.fillStyle = colors.soft;
      pen.textAlign = a ? "right" : "center";
      if (a) pen.fillText(word, frame.x - 7, frame.y + (1 - s) * frame.h);
      else pen.fillText(word, frame.x + s * frame.w, frame.y + frame.h + 13);
    });
    pen.fillStyle = colors.soft;
    pen.textAlign = "center";
    const cut = (words, width) => {
      if (pen.measureText(words).width <= width) return words;
      while (words.length > 1 && pen.measureText(words + "…").width > width) words = words.slice(0, -1);
      return words + "…";
    };
    if (data.degrees) return;
    pen.fillText(cut(axes[0], frame.w), frame.x + frame.w / 2, frame.y + frame.h + 33);
    pen.save();
    pen.translate(11, frame.y + frame.h / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(cut(axes[1], frame.h), 0, 0);
    pen.restore();
  }

  const tint = { size: "", look: "" }; // kept: a hover draws the same image again
  function drawRegions() { // each place in the colour of its nearest centre
    const step = 3, w = Math.ceil(frame.w / step), h = Math.ceil(frame.h / step);
    const sized = w + "x" + h, look = sized + colors.clusters + hidden;
    if (tint.size !== sized) { tint.nearest = nearestCenters(w, h); tint.size = sized; }
    if (tint.look !== look) { tint.image = tinted(tint.nearest, w, h); tint.look = look; }
    pen.drawImage(tint.image, frame.x, frame.y, frame.w, frame.h);
  }
  function nearestCenters(w, h) {
    const found = new Uint32Array(w * h), spot = data.spots;
    const ux = (limits[0][1] - limits[0][0]) / w, uy = (limits[1][1] - limits[1][0]) / h;
    for (let j = 0; j < h; j++) for (let i = 0; i < w; i++) {
      const x = limits[0][0] + (i + 0.5) * ux, y = limits[1][1] - (j + 0.5) * uy;
      let best = 0, least = Infinity;
      for (let c = 0; c < k; c++) {
        const dx = x - spot[c][0], dy = y - spot[c][1], d = dx * dx + dy * dy;
        if (d < least) { least = d; best = c; }
      }
      found[j * w + i] = best;
    }
    return found;
  }
  const channels = (color) => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  function tinted(nearest, w, h) {
    const image = new ImageData(w, h), rgb = colors.clusters.map(channels);
    nearest.forEach((c, at) => image.data.set([...rgb[c], hidden[c] ? 0 : 30], 4 * at));
    const off = document.createElement("canvas");
    off.width = w;
    off.height = h;
    off.getContext("2d").putImageData(image, 0, 0);
    return off;
  }
  const luminance = (color) => channels(color).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const faintOn = (color, card) => { // a contrast below 3
    const [a, b] = [luminance(color), luminance(card)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05) < 3;
  };

  function drawLand() {
    pen.fillStyle = colors.faint;
    pen.globalAlpha = 0.33;
    const wide = limits[0][1] - limits[0][0], r = 0.4 * Math.max(1.5, frame.w / wide * (wide > 60 ? 1 : 0.25));
    pen.beginPath();
    for (let i = 0; i < land.length; i += 2)
      if (!outside(land[i]) && !outside(land[i + 1])) mark(X(land[i]), Y(land[i + 1]), r, "circle");
    pen.fill();
    pen.globalAlpha = 1;
  }

  function drawEdges() {
    pen.strokeStyle = colors.faint;
    pen.globalAlpha = edges.length > 40000 ? 0.35 : 0.55;
    pen.lineWidth = edges.length > 40000 ? 0.5 : 0.8;
    pen.beginPath();
    for (let i = 0; i < edges.length; i += 4) {
      pen.moveTo(X(edges[i]), Y(edges[i + 1]));
      pen.lineTo(X(edges[i + 2]), Y(edges[i + 3]));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  const radius = Math.max(1.3, Math.min(4.2, 90 / Math.sqrt(n + 1)));
  const radiusOf = (i) => (size.w < 560 ? 0.65 : 1) * (radii.length ? Math.max(0.9, radii[i] / 255 * 13) : radius);
  function drawPoints(c) {
    pen.fillStyle = colors.clusters[c];
    pen.globalAlpha = singled >= 0 && singled !== c ? 0.06 : n > 6000 ? 0.65 : 0.75;
    pen.beginPath();
    for (const i of byCluster[c]) {
      const a = points[2 * i], b = points[2 * i + 1];
      if (outside(a) || outside(b)) arrow(points, i, 5);
      else mark(X(a), Y(b), radiusOf(i), clusters[c].mark);
    }
    if (colors.faintly[c] && radiusOf(byCluster[c][0]) >= 1.8) { // a light colour has an outline
      const strength = pen.globalAlpha;
      pen.globalAlpha *= 0.4;
      pen.lineWidth = 1.2; // the inner half is filled
      pen.strokeStyle = colors.ink;
      pen.stroke();
      pen.globalAlpha = strength;
    }
    pen.fill();
    pen.globalAlpha = 1;
  }

  function drawCenter(c) {
    const a = centers[2 * c], b = centers[2 * c + 1], far = outside(a) || outside(b);
    let x = X(a), y = Y(b);
    const r = size.w < 560 ? 7.5 : k > 30 ? 8.5 : 10, strength = singled >= 0 && singled !== c ? 0.25 : 1;
    pen.globalAlpha = strength;
    if (n === 0 && clusters[c].share && !far) { // no points: the area of a circle is the size
      pen.fillStyle = colors.clusters[c];
      pen.globalAlpha *= 0.3;
      pen.beginPath();
      mark(x, y, (size.w < 560 ? 50 : 75) * Math.sqrt(clusters[c].share), "circle");
      pen.fill();
      pen.globalAlpha = strength;
    }
    pen.beginPath();
    if (far) { // outside the frame: an arrow, and its number beside it
      ({ x, y } = arrow(centers, c, r));
      pen.fillStyle = colors.clusters[c];
      pen.fill();
      pen.lineWidth = 1;
      pen.strokeStyle = colors.ink;
      pen.stroke();
    } else {
      mark(x, y, r, clusters[c].mark);
      pen.fillStyle = colors.card;
      pen.fill();
      pen.lineWidth = 2.4;
      pen.strokeStyle = colors.clusters[c];
      pen.stroke();
    }
    pen.fillStyle = colors.ink;
    pen.font = `650 ${r < 8 ? 8.5 : r < 10 ? 10 : 11}px system-ui, sans-serif`;
    pen.lineJoin = "round";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const low = y + 0.5 + (clusters[c].mark === "triangle" && !far ? 1.5 : 0);
    if (far || clusters[c].short.length > 1) { // wider than some marks
      pen.lineWidth = 2.5;
      pen.strokeStyle = colors.card;
      pen.strokeText(clusters[c].short, x, low);
    }
    pen.fillText(clusters[c].short, x, low);
    if (clusters[c].word && size.w >= 560 && !far) {
      pen.font = "600 12px system-ui, sans-serif";
      pen.lineWidth = 3.5;
      pen.strokeStyle = colors.card;
      pen.strokeText(clusters[c].word, x, y + r + 10);
      pen.fillText(clusters[c].word, x, y + r + 10);
    }
    pen.globalAlpha = 1;
  }

  function draw() {
    const css = getComputedStyle(figure), named = (name) => css.getPropertyValue("--" + name).trim();
    colors = { clusters: clusters.map((c) => named("k" + c.color)) };
    for (const name of ["ink", "soft", "faint", "line", "card"]) colors[name] = named(name);
    colors.faintly = colors.clusters.map((color) => faintOn(color, colors.card));
    pen.clearRect(0, 0, size.w, size.h);
    drawAxes();
    pen.save();
    pen.beginPath();
    pen.rect(frame.x - 1, frame.y - 1, frame.w + 2, frame.h + 2);
    pen.clip();
    if (data.regions) drawRegions();
    drawLand();
    drawEdges();
    const seen = [...clusters.keys()].filter((c) => !hidden[c]);
    for (const c of seen) drawPoints(c);
    pen.restore();
    for (const c of seen) drawCenter(c);
    if (picked >= 0) {
      pen.beginPath();
      pen.arc(X(points[2 * picked]), Y(points[2 * picked + 1]), radiusOf(picked) + 4, 0, 7);
      pen.lineWidth = 2;
      pen.strokeStyle = colors.ink;
      pen.stroke();
    }
  }
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };

  const ranges = (columns || []).map((_, j) => { // of the values of each column
    let low = Infinity, high = -Infinity;
    for (let i = j; i < values.length; i += columns.length) {
      low = Math.min(low, values[i]);
      high = Math.max(high, values[i]);
    }
    return high - low;
  });

  function nearest(x, y, within) {
    let best = -1, least = within * within;
    for (let i = 0; i < n; i++) {
      if (hidden[labels[i]]) continue;
      const dx = X(points[2 * i]) - x, dy = Y(points[2 * i + 1]) - y, d = dx * dx + dy * dy;
      if (d <= least) { least = d; best = i; }
    }
    return best;
  }
  function overCenter(x, y) {
    for (let c = k - 1; c >= 0; c--)
      if (!hidden[c] && Math.hypot(X(centers[2 * c]) - x, Y(centers[2 * c + 1]) - y) < 10) return c;
    return -1;
  }
  function point(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const c = overCenter(x, y), i = c >= 0 ? -1 : nearest(x, y, 14), before = picked;
    canvas.style.cursor = c >= 0 || i >= 0 ? "pointer" : "";
    if (c >= 0) Tip.show(event.clientX, event.clientY, `Centre of ${clusters[c].name}`, clusters[c].pairs);
    else if (i >= 0) {
      const pairs = values.length
        ? columns.map((name, j) => [name, show(data.offsets[j] + values[i * columns.length + j], ranges[j])])
        : axes.map((name, a) => [name, (outside(points[2 * i + a]) ? "beyond " : "") + show(measure(i, a), limits[a][1] - limits[a][0])])
          .filter(([name]) => name);
      const row = rows.length ? ` · row ${(rows[i] + 1).toLocaleString("en")}` : "";
      const word = data.titles ? data.titles[i] + " · " : "";
      Tip.show(event.clientX, event.clientY, word + clusters[labels[i]].name + row, pairs);
    } else Tip.hide();
    picked = i;
    if (before !== picked) redraw();
  }
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") Tip.hide(); });
  Tip.onHide(() => { if (picked >= 0) { picked = -1; redraw(); } });

  const items = [...figure.querySelectorAll(".legend button[data-cluster]")];
  const toggle = (c, off) => { hidden[c] = off; items[c].setAttribute("aria-pressed", String(!off)); };
  items.forEach((item, c) => {
    item.addEventListener("click", (event) => {
      if (event.shiftKey) for (let o = 0; o < k; o++) toggle(o, o !== c);
      else toggle(c, !hidden[c]);
      singled = -1;
      redraw();
    });
    item.addEventListener("pointerenter", (e) => { if (e.pointerType === "mouse" && !hidden[c]) { singled = c; redraw(); } });
    item.addEventListener("pointerleave", () => { singled = -1; redraw(); });
  });
  const all = figure.querySelector(".legend .all");
  if (all) all.addEventListener("click", () => {
    const off = hidden.every((h) => !h);
    for (let c = 0; c < k; c++) toggle(c, off);
    redraw();
  });
  new ResizeObserver(() => {
    if (Math.max(200, canvas.parentElement.clientWidth) !== size.w) { layout(); draw(); }
  }).observe(canvas.parentElement);
  Theme.onChange(draw);
  layout();
  draw();
})();
