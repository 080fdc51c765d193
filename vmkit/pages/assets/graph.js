"use strict";
// Draws DATA: nodes, edges [source, target, text], and scopes, each of which is one node of the picture while closed.

const FEW = 150; // the most nodes that are drawn when the page is opened
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const open = new Set(); // the scopes whose insides are drawn

// A scope and those around it, the outermost first.
function around(scope) {
  const parts = scope ? scope.split("/") : [];
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

const scopes = new Map(); // scope -> the nodes inside
DATA.nodes.forEach((node, at) => {
  node.around = around(node.scope);
  for (const scope of node.around) {
    if (!scopes.has(scope)) scopes.set(scope, []);
    scopes.get(scope).push(at);
  }
});

// What is drawn for a node: itself, or the outermost closed scope around it. A scope of one node is no scope.
function shown(at) {
  const scope = DATA.nodes[at].around.find((each) => !open.has(each) && scopes.get(each).length > 1);
  return scope === undefined ? `n${at}` : `s${scope}`;
}

function visible() {
  const nodes = new Map();
  DATA.nodes.forEach((_, at) => {
    const id = shown(at);
    if (!nodes.has(id)) nodes.set(id, []);
    nodes.get(id).push(at);
  });
  const edges = new Map();
  for (const [source, target, text] of DATA.edges) {
    const [from, to] = [shown(source), shown(target)];
    if (from === to) continue;
    const id = `e${from}>${to}`;
    const texts = edges.get(id)?.texts ?? new Set();
    if (text) texts.add(text);
    edges.set(id, { from, to, texts });
  }
  return { nodes, edges };
}

function label(id, members) {
  if (id[0] === "n") {
    const node = DATA.nodes[members[0]];
    return node.kind === "input" || node.kind === "output" ? node.name || node.operator : node.operator;
  }
  const scope = id.slice(1);
  return `${scope.split("/").pop()} · ${members.length} nodes`;
}

function elements() {
  const { nodes, edges } = visible();
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 34, ranker: nodes.size > 600 ? "longest-path" : "tight-tree" });
  graph.setDefaultEdgeLabel(() => ({}));
  const made = [];
  for (const [id, members] of nodes) {
    const text = label(id, members);
    const data = { id, text, members, width: Math.max(60, 7.6 * text.length + 22), kind: id[0] === "s" ? "scope" : DATA.nodes[members[0]].kind };
    graph.setNode(id, { width: data.width, height: 30 });
    made.push({ data });
  }
  for (const [id, { from, to, texts }] of edges) {
    const text = texts.size === 1 && nodes.size <= 2 * FEW ? [...texts][0] : "";
    graph.setEdge(from, to, text ? { width: 5.4 * text.length, height: 14, labelpos: "c" } : {});
    made.push({ data: { id, source: from, target: to, text } });
  }
  dagre.layout(graph);
  for (const element of made) {
    if (element.data.source === undefined) {
      const { x, y } = graph.node(element.data.id);
      element.position = { x, y };
    }
  }
  return made;
}

const style = () => [
  { selector: "node", style: {
    shape: "round-rectangle", width: "data(width)", height: 30, label: "data(text)", color: colour("text"),
    "font-size": 13, "font-family": "system-ui, sans-serif", "text-valign": "center", "text-halign": "center",
    "background-color": colour("ground"), "border-width": 2, "min-zoomed-font-size": 5 } },
  ...["input", "weighted", "control", "operator"].map((kind) => (
    { selector: `node[kind = "${kind}"]`, style: { "border-color": colour(kind) } })),
  { selector: 'node[kind = "output"]', style: { "border-color": colour("input") } },
  { selector: 'node[kind = "input"], node[kind = "output"]', style: { shape: "round-tag" } },
  { selector: 'node[kind = "scope"]', style: { "border-color": colour("scope"), "border-style": "double", "border-width": 4 } },
  { selector: "node:selected", style: { "background-color": colour("strong"), color: colour("ground") } },
  { selector: "node.found", style: { "border-color": colour("found"), "border-width": 5 } },
  { selector: "edge", style: {
    width: 1.5, "line-color": colour("line"), "target-arrow-color": colour("line"), "target-arrow-shape": "triangle",
    "curve-style": "bezier", label: "data(text)", "font-size": 10, color: colour("faint"), "min-zoomed-font-size": 9,
    "text-background-color": colour("ground"), "text-background-opacity": 0.9, "text-background-padding": 2 } },
];

const picture = cytoscape({ container: byId("picture"), style: style(), minZoom: 0.02, maxZoom: 3 });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => picture.style(style()));

// Draw what is visible. The node named by `keep` stays where it is on the screen, so that nobody loses their place.
function draw(keep) {
  const before = keep && picture.getElementById(keep.was).nonempty() ? picture.getElementById(keep.was).renderedPosition() : undefined;
  picture.elements().remove();
  picture.add(elements());
  if (before) {
    const now = picture.getElementById(keep.is).renderedPosition();
    picture.panBy({ x: before.x - now.x, y: before.y - now.y });
  } else {
    start();
  }
  mark();
  byId("count").textContent = `${DATA.nodes.length} nodes, ${picture.nodes().length} drawn`;
}

// Show the whole picture if it can be read so; otherwise its top.
function start() {
  picture.fit(undefined, 24);
  if (picture.zoom() >= 0.45) return;
  const top = picture.nodes().reduce((a, b) => (a && a.position("y") <= b.position("y") ? a : b), undefined);
  picture.zoom(0.9);
  const at = top.renderedPosition();
  picture.panBy({ x: picture.width() / 2 - at.x, y: 50 - at.y });
}

function toggle(scope, isOpen) {
  const first = scopes.get(scope)[0];
  const was = shown(first);
  for (const each of scopes.keys()) {
    if (each === scope ? !isOpen : !isOpen && each.startsWith(`${scope}/`)) open.delete(each);
  }
  if (isOpen) around(scope).forEach((each) => open.add(each));
  draw({ was, is: shown(first) });
  if (isOpen) describeScope(scope); else select(shown(first));
}

// Searching: what matches is marked, also the closed scopes that hold a match; Enter goes from one to the next.
let matches = [];
let current = -1;
function mark() {
  picture.nodes().removeClass("found");
  new Set(matches.map(shown)).forEach((id) => picture.getElementById(id).addClass("found"));
}
function search() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (node) => [node.name, node.operator, ...node.types].join(" ").toLowerCase();
  matches = words.length ? DATA.nodes.flatMap((node, at) => (words.every((word) => text(node).includes(word)) ? [at] : [])) : [];
  current = -1;
  byId("found").textContent = words.length ? `${matches.length} found${matches.length ? ", Enter shows the next" : ""}` : "";
  mark();
}
function next(step) {
  if (!matches.length) return;
  current = (current + step + matches.length) % matches.length;
  reveal(matches[current]);
  byId("found").textContent = `${current + 1} of ${matches.length}`;
}

// Open all that hides a node, bring it to the middle and say what it is.
function reveal(at) {
  const hidden = DATA.nodes[at].around.filter((each) => !open.has(each));
  if (hidden.length) {
    hidden.forEach((each) => open.add(each));
    draw();
  }
  const node = picture.getElementById(`n${at}`);
  picture.animate({ center: { eles: node }, zoom: Math.max(picture.zoom(), 0.8) }, { duration: 150 });
  select(`n${at}`);
}

function select(id) {
  picture.nodes().unselect();
  picture.getElementById(id).select();
  if (id[0] === "n") describe(Number(id.slice(1))); else describeScope(id.slice(1));
}

// The panel. Text of the model is only ever set as text.
function put(parent, tag, text, onclick) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (onclick) { made.onclick = onclick; made.tabIndex = 0; made.onkeydown = (event) => { if (event.key === "Enter") onclick(); }; }
  parent.appendChild(made);
  return made;
}
function rows(parent, title, pairs) {
  if (!pairs.length) return;
  put(parent, "h3", title);
  const table = put(parent, "table");
  for (const [name, value] of pairs) {
    const row = put(table, "tr");
    put(row, "th", name);
    put(row, "td", value);
  }
}
function links(parent, title, nodes) {
  if (!nodes.length) return;
  put(parent, "h3", title);
  for (const [at, text] of nodes) {
    const line = put(parent, "div");
    const node = DATA.nodes[at];
    put(line, "a", node.name || node.operator, () => reveal(at));
    if (text) put(line, "span", `  ${text}`).className = "mono";
  }
}
function scopeLinks(parent, scope) {
  const above = around(scope).filter((each) => scopes.get(each).length > 1);
  if (!above.length) return;
  put(parent, "h3", "Inside of");
  above.forEach((each) => put(put(parent, "div"), "a", `${each} (close)`, () => toggle(each, false)));
}
function describe(at) {
  const panel = byId("details");
  const node = DATA.nodes[at];
  panel.replaceChildren();
  put(panel, "h2", node.operator);
  if (node.name) put(panel, "div", node.name).className = "mono";
  if (node.types.some(Boolean)) put(panel, "h3", "Gives");
  node.types.filter(Boolean).forEach((type) => { put(panel, "div", type).className = "mono"; });
  rows(panel, "Attributes and constants", Object.entries(node.attributes));
  links(panel, "Takes from", DATA.edges.filter(([, target]) => target === at).map(([source, , text]) => [source, text]));
  links(panel, "Goes to", DATA.edges.filter(([source]) => source === at).map(([, target, text]) => [target, text]));
  scopeLinks(panel, node.scope);
}
function describeScope(scope) {
  const panel = byId("details");
  const members = scopes.get(scope);
  panel.replaceChildren();
  put(panel, "h2", scope);
  put(panel, "button", open.has(scope) ? "Close" : "Open", () => toggle(scope, !open.has(scope)));
  const counts = new Map();
  members.forEach((at) => counts.set(DATA.nodes[at].operator, (counts.get(DATA.nodes[at].operator) ?? 0) + 1));
  rows(panel, `${members.length} nodes`, [...counts].sort((a, b) => b[1] - a[1]));
}
function welcome() {
  const panel = byId("details");
  const counts = new Map();
  DATA.nodes.forEach(({ kind, operator }) => { if (kind !== "input" && kind !== "output") counts.set(operator, (counts.get(operator) ?? 0) + 1); });
  panel.replaceChildren();
  put(panel, "h2", DATA.title);
  put(panel, "div", "Click a node for its shapes and attributes; a double frame opens with a double click.");
  for (const kind of ["input", "output"]) {
    rows(panel, kind === "input" ? "Inputs" : "Outputs", DATA.nodes.filter((node) => node.kind === kind && !node.scope).map((node) => [node.name, node.types.join(", ")]));
  }
  rows(panel, "Operators", [...counts].sort((a, b) => b[1] - a[1]));
}

picture.on("tap", (event) => { if (event.target === picture) { picture.nodes().unselect(); welcome(); } });
picture.on("tap", "node", (event) => select(event.target.id()));
picture.on("dbltap", 'node[kind = "scope"]', (event) => toggle(event.target.id().slice(1), true));
byId("search").oninput = search;
byId("search").onkeydown = (event) => { if (event.key === "Enter") next(event.shiftKey ? -1 : 1); };
byId("open").onclick = () => { scopes.forEach((_, scope) => open.add(scope)); draw(); };
byId("close").onclick = () => { open.clear(); draw(); };
byId("fit").onclick = () => picture.fit(undefined, 24);
byId("title").textContent = DATA.title;
for (const [kind, text] of [["weighted", "with weights"], ["control", "control flow"], ["operator", "other"], ["input", "input, output"], ["scope", "closed scope"]]) {
  put(byId("legend"), "span").style.background = `var(--${kind})`;
  byId("legend").append(text);
}
// Open the largest scopes for as long as few nodes are drawn: a small model is drawn whole.
for (const [scope] of [...scopes].sort((a, b) => b[1].length - a[1].length)) {
  if (!around(scope).slice(0, -1).every((each) => open.has(each))) continue;
  open.add(scope);
  if (visible().nodes.size > FEW) open.delete(scope);
}
new ResizeObserver(() => picture.resize()).observe(byId("picture"));
draw();
welcome();
