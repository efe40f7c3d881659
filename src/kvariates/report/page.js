"use strict";
// The theme button, copy buttons, and tips: elements with a data-tip attribute show it on hover, or
// when they are tapped, until there is a tap elsewhere or the page scrolls.
const Tip = (() => {
  const box = document.getElementById("tip"), listeners = [];
  const place = (x, y) => {
    const r = box.getBoundingClientRect();
    box.style.left = Math.max(6, Math.min(x + 14, innerWidth - r.width - 6)) + "px";
    box.style.top = (y + r.height + 24 > innerHeight ? Math.max(6, y - r.height - 12) : y + 16) + "px";
  };
  const add = (tag, words, parent) => {
    const e = document.createElement(tag);
    e.textContent = words;
    parent.append(e);
  };
  return {
    // title, and pairs of a name and a value
    show(x, y, title, pairs) {
      box.replaceChildren();
      add("b", title, box);
      if (pairs && pairs.length) {
        const list = document.createElement("dl");
        for (const [name, value] of pairs) { add("dt", name, list); add("dd", value, list); }
        box.append(list);
      }
      box.hidden = false;
      place(x, y);
    },
    hide() { box.hidden = true; listeners.forEach((f) => f()); },
    onHide: (f) => listeners.push(f),
  };
})();

for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, (event) => {
  const target = event.target.closest && event.target.closest("[data-tip],canvas");
  if (!target) Tip.hide();
  else if (target.dataset.tip) Tip.show(event.clientX, event.clientY, target.dataset.tip);
});
document.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") Tip.hide(); });
addEventListener("scroll", Tip.hide, { passive: true });

const Theme = (() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  const tell = () => listeners.forEach((f) => f());
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    tell();
  });
  dark.addEventListener("change", tell);
  let before;
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    before = root.dataset.theme;
    root.dataset.theme = "light";
    tell();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    tell();
  });
  return { onChange: (f) => listeners.push(f) };
})();

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch { button.textContent = "Select and copy"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

// Tables that are cut fade at their right edge, and a line below says that they scroll.
for (const box of document.querySelectorAll(".scroll")) {
  const cue = document.createElement("p");
  cue.className = "cue";
  cue.textContent = "Scroll to the right for more columns →";
  cue.setAttribute("aria-hidden", "true");
  box.after(cue);
  const update = () => {
    const more = box.scrollWidth - box.clientWidth - box.scrollLeft > 2;
    box.classList.toggle("more", more);
    cue.hidden = !more;
  };
  box.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(box);
}
