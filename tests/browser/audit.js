// What a reader, a screen reader and a keyboard need, asked of the page as it is rendered. Returns a list of faults.
const faults = [];
const say = (what, node) => faults.push(what + ": " + (node.outerHTML || String(node)).slice(0, 120));
const seen = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
const all = (selector) => [...document.querySelectorAll(selector)];

if (!document.documentElement.lang) faults.push("no language");
if (!document.title.trim()) faults.push("no title");
for (const landmark of ["main", "header", "footer"])
  if (all("body > " + landmark).length !== 1) faults.push("not one " + landmark);

const headings = all("h1, h2, h3, h4, h5, h6").filter(seen);
if (headings.filter((node) => node.tagName === "H1").length !== 1) faults.push("not one h1");
let level = 0;
for (const node of headings) {
  const own = Number(node.tagName[1]);
  if (own > level + 1) say("heading after h" + level, node);
  if (!node.textContent.trim()) say("empty heading", node);
  level = own;
}

const ids = all("[id]").map((node) => node.id);
for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) faults.push("id twice: " + id);
for (const node of all("[aria-labelledby]"))
  for (const id of node.getAttribute("aria-labelledby").split(" "))
    if (!document.getElementById(id)) say("label that is not there", node);

for (const node of all("input:not([type=hidden], [hidden]), select, textarea"))
  if (![...node.labels].some((label) => label.textContent.trim()) && !node.ariaLabel) say("no label", node);
for (const node of all("a, button, summary"))
  if (!node.textContent.trim() && !node.ariaLabel) say("no name", node);
for (const node of all("svg"))
  if (!node.closest("[aria-hidden=true]") && !(node.getAttribute("role") === "img" && node.ariaLabel)) say("no text for", node);
for (const node of all("table:not([role=presentation]) th")) if (!node.scope) say("no scope", node);
for (const node of all("fieldset")) if (!node.querySelector("legend")) say("no legend", node);
for (const node of all("*")) {
  const style = getComputedStyle(node);
  const scrolls = /auto|scroll/.test(style.overflowX) && node.scrollWidth > node.clientWidth + 1;
  if (scrolls && seen(node) && node.tabIndex < 0 && node !== document.documentElement) say("a keyboard cannot scroll", node);
}

// Contrast, as WCAG 2.2 has it: of each piece of text against the nearest ground behind it.
const parse = (text) => {
  const parts = text.match(/[\d.]+/g).map(Number);
  return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.alpha > 0.99) return colour.rgb;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
};
const ratio = (one, other) => {
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const parent = node.parentElement;
  if (!node.textContent.trim() || !seen(parent) || parent.closest("svg title, option")) continue;
  const style = getComputedStyle(parent);
  const isSvg = parent.namespaceURI.endsWith("svg");
  const colour = parse(isSvg ? style.fill : style.color).rgb;
  const size = parseFloat(style.fontSize);
  const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  const found = ratio(colour, ground(isSvg ? parent.ownerSVGElement.parentElement : parent));
  if (found < needed) say("contrast " + found.toFixed(2), parent);
}
for (const node of all("svg rect[class^=c], svg line.capacity").filter(seen)) {
  const style = getComputedStyle(node);
  const colour = parse(node.tagName === "line" ? style.stroke : style.fill).rgb;
  if (ratio(colour, ground(node.ownerSVGElement.parentElement)) < 3) say("mark without contrast", node);
}
if (document.documentElement.scrollWidth > innerWidth) faults.push("wider than the window: " + document.documentElement.scrollWidth);
return [...new Set(faults)];
