// Scatter plots on a canvas: points of clusters, their centres, arrows for points outside.
// Coordinates are 16-bit numbers: 1 to 65534 across the frame, 0 and 65535 are beyond it.
for (const figure of document.querySelectorAll("figure.scatter")) (() => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d");
  const numbers = (name, Type) => data[name]
    ? new Type(Uint8Array.from(atob(data[name]), (c) => c.charCodeAt(0)).buffer) : new Type(0);
  const points = numbers("points", Uint16Array), labels = numbers("labels", Uint16Array);
  const radii = numbers("radii", Uint8Array), rows = numbers("rows", Uint32Array);
  const values = numbers("values", Float32Array);
  const edges = numbers("edges", Uint16Array), land = numbers("land", Uint16Array);
  const centers = numbers("centers", Uint16Array);
  const { clusters, limits, axes, columns } = data;
  const n = labels.length, k = clusters.length;
  const hidden = new Array(k).fill(false);
  const byCluster = Array.from({ length: k }, () => []);
  for (let i = 0; i < n; i++) byCluster[labels[i]].push(i);
  let size = { w: 0, h: 0 }, frame, colors, picked = -1, singled = -1;

  const outside = (v) => v === 0 || v === 65535;
  const part = (v) => Math.max(0, Math.min(1, (v - 1) / 65533));
  const X = (v) => frame.x + part(v) * frame.w, Y = (v) => frame.y + (1 - part(v)) * frame.h;
  const show = (v) => {
    const a = Math.abs(v);
    if (v === 0) return "0";
    if (a >= 1e7 || a < 1e-4) return v.toExponential(2).replace("-", "−");
    return v.toLocaleString("en", { maximumSignificantDigits: a >= 1e4 ? 7 : 4 }).replace("-", "−");
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
  function arrow(i, r) { // at the frame, in the direction of a point outside
    const a = points[2 * i], b = points[2 * i + 1];
    const dx = a === 0 ? -1 : a === 65535 ? 1 : 0, dy = b === 0 ? 1 : b === 65535 ? -1 : 0;
    const l = Math.hypot(dx, dy), ux = dx / l, uy = dy / l, x = X(a) - ux * r, y = Y(b) - uy * r;
    pen.moveTo(x + ux * r, y + uy * r);
    pen.lineTo(x - ux * r - uy * r * 0.8, y - uy * r + ux * r * 0.8);
    pen.lineTo(x - ux * r + uy * r * 0.8, y - uy * r - ux * r * 0.8);
    pen.closePath();
  }

  function layout() {
    const w = Math.max(200, canvas.parentElement.clientWidth); // 0 while it is not laid out
    const narrow = w < 560;
    const left = data.degrees ? 40 : narrow ? 46 : 62, bottom = data.degrees ? 27 : 44, top = 14, right = 16;
    const inner = w - left - right;
    const wanted = data.aspect ? inner / data.aspect : inner * (narrow ? 0.95 : 0.6);
    const h = Math.round(Math.max(data.aspect ? 110 : 240, Math.min(640, wanted)));
    frame = { x: left, y: top, w: inner, h };
    if (data.aspect && inner / h > data.aspect) { // equal units: narrower than the stage
      frame.w = h * data.aspect;
      frame.x = left + (inner - frame.w) / 2;
    }
    size = { w, h: h + top + bottom };
    const dense = devicePixelRatio || 1;
    canvas.width = Math.round(size.w * dense);
    canvas.height = Math.round(size.h * dense);
    canvas.style.height = size.h + "px";
    pen.setTransform(dense, 0, 0, dense, 0, 0);
  }

  function ticks(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const steps = data.degrees && rough > 5 ? [10, 15, 30, 45, 60, 90, 180, 360] : [1, 2, 2.5, 5, 10].map((f) => f * power);
    const step = steps.find((s) => s >= rough);
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(i * step);
    return found;
  }
  const degrees = (v, sides) => v === 0 ? "0°" : show(Math.abs(v)) + "°" + sides[v > 0 ? 1 : 0];

  function drawAxes() {
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    for (const [a, most] of [[0, frame.w / 90], [1, frame.h / 60]]) {
      if (!axes[a]) continue;
      const [low, high] = limits[a];
      for (const t of ticks(low, high, Math.max(2, most))) {
        const s = (t - low) / (high - low), word = data.degrees ? degrees(t, a ? "SN" : "WE") : show(t);
        pen.strokeStyle = colors.line;
        pen.beginPath();
        if (a) { const y = frame.y + (1 - s) * frame.h; pen.moveTo(frame.x, y); pen.lineTo(frame.x + frame.w, y); }
        else { const x = frame.x + s * frame.w; pen.moveTo(x, frame.y); pen.lineTo(x, frame.y + frame.h); }
        pen.stroke();
        pen.fillStyle = colors.faint;
        pen.textAlign = a ? "right" : "center";
        if (a) pen.fillText(word, frame.x - 7, frame.y + (1 - s) * frame.h);
        else pen.fillText(word, frame.x + s * frame.w, frame.y + frame.h + 13);
      }
    }
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

  function drawRegions() { // each place in the colour of its nearest centre
    const step = 3, w = Math.ceil(frame.w / step), h = Math.ceil(frame.h / step);
    const image = new ImageData(w, h), spot = data.spots;
    const ux = (limits[0][1] - limits[0][0]) / w, uy = (limits[1][1] - limits[1][0]) / h;
    const rgb = colors.clusters.map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
    for (let j = 0; j < h; j++) for (let i = 0; i < w; i++) {
      const x = limits[0][0] + (i + 0.5) * ux, y = limits[1][1] - (j + 0.5) * uy;
      let best = 0, least = Infinity;
      for (let c = 0; c < k; c++) {
        const dx = x - spot[c][0], dy = y - spot[c][1], d = dx * dx + dy * dy;
        if (d < least) { least = d; best = c; }
      }
      const at = 4 * (j * w + i);
      image.data.set(rgb[best], at);
      image.data[at + 3] = hidden[best] ? 0 : 30;
    }
    const off = document.createElement("canvas");
    off.width = w;
    off.height = h;
    off.getContext("2d").putImageData(image, 0, 0);
    pen.drawImage(off, frame.x, frame.y, frame.w, frame.h);
  }

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
      if (outside(a) || outside(b)) arrow(i, 5);
      else mark(X(a), Y(b), radiusOf(i), clusters[c].mark);
    }
    pen.fill();
    pen.globalAlpha = 1;
  }

  function drawCenter(c) {
    const x = X(centers[2 * c]), y = Y(centers[2 * c + 1]), r = size.w < 560 ? 7.5 : k > 30 ? 8.5 : 10;
    pen.globalAlpha = singled >= 0 && singled !== c ? 0.25 : 1;
    pen.beginPath();
    if (n === 0 && clusters[c].share) { // no points: the size of a cluster is the size of its mark
      pen.fillStyle = colors.clusters[c];
      pen.globalAlpha *= 0.3;
      mark(x, y, 10 + 46 * Math.sqrt(clusters[c].share), "circle");
      pen.fill();
      pen.globalAlpha = singled >= 0 && singled !== c ? 0.25 : 1;
      pen.beginPath();
    }
    mark(x, y, r, clusters[c].mark);
    pen.fillStyle = colors.card;
    pen.fill();
    pen.lineWidth = 2.4;
    pen.strokeStyle = colors.clusters[c];
    pen.stroke();
    pen.fillStyle = colors.ink;
    pen.font = `650 ${r < 8 ? 8.5 : r < 10 ? 10 : 11}px system-ui, sans-serif`;
    pen.lineJoin = "round";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const low = y + 0.5 + (clusters[c].mark === "triangle" ? 1.5 : 0);
    if (clusters[c].short.length > 1) { // wider than some marks
      pen.lineWidth = 2.5;
      pen.strokeStyle = colors.card;
      pen.strokeText(clusters[c].short, x, low);
    }
    pen.fillText(clusters[c].short, x, low);
    if (clusters[c].word && size.w >= 560) {
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
    picked = i;
    canvas.style.cursor = c >= 0 || i >= 0 ? "pointer" : "";
    if (c >= 0) Tip.show(event.clientX, event.clientY, `Centre of ${clusters[c].name}`, clusters[c].pairs);
    else if (i >= 0) {
      const pairs = values.length
        ? columns.map((name, j) => [name, show(values[i * columns.length + j])])
        : axes.map((name, a) => [name, (outside(points[2 * i + a]) ? "beyond " : "") + show(measure(i, a))])
          .filter(([name]) => name);
      const row = rows.length ? ` · row ${(rows[i] + 1).toLocaleString("en")}` : "";
      const word = data.titles ? data.titles[i] + " · " : "";
      Tip.show(event.clientX, event.clientY, word + clusters[labels[i]].name + row, pairs);
    } else Tip.hide();
    if (before !== picked) redraw();
  }
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", () => { picked = -1; Tip.hide(); redraw(); });

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
