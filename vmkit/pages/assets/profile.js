"use strict";
// Draws DATA: calls with begin and time in microseconds, by device.

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const ROW = 34;
const WIDTH = 1260;

function put(parent, tag, text) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
}
const microseconds = (time) => (time >= 1e6 ? `${(time / 1e6).toFixed(2)} s` : time >= 1e3 ? `${(time / 1e3).toFixed(2)} ms` : `${time.toFixed(1)} us`);

const rate = (row) => (row.operations ? row.operations / row.time / 1e3 : -1);
const rateText = (row) => (row.operations ? rate(row).toFixed(1) : "");
const bytesText = (bytes) => (bytes === null ? "" : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : bytes >= 1e3 ? `${(bytes / 1e3).toFixed(1)} kB` : `${bytes} B`);

// One colour a kernel, the same on both pictures: hues a golden angle apart, in the order of their time.
const rows = new Map();
for (const call of DATA.calls) {
  const key = [call.name, call.shapes, call.device, call.more.Nodes ?? ""].join("\n");
  const row = rows.get(key) ?? { name: call.name, shapes: call.shapes, device: call.device, calls: 0, time: 0, operations: 0, bytes: 0, more: call.more };
  row.calls += 1;
  row.time += call.time;
  // What one call does not tell, their sum does not.
  row.operations = call.operations === null || row.operations === null ? null : row.operations + call.operations;
  row.bytes = call.bytes === null || row.bytes === null ? null : row.bytes + call.bytes;
  rows.set(key, row);
}
const sorted = [...rows.values()].sort((a, b) => b.time - a.time);
const hues = new Map();
sorted.forEach((row) => { if (!hues.has(row.name)) hues.set(row.name, `hsl(${(hues.size * 137.5) % 360} 55% 55%)`); });
const inKernels = DATA.calls.reduce((sum, call) => sum + call.time, 0);
const whole = Math.max(...Object.values(DATA.whole), 0) || inKernels;

// The timeline: one row a device; `view` is what of it is seen, in microseconds.
const devices = [...new Set(DATA.calls.map((call) => call.device))];
const end = Math.max(whole, ...DATA.calls.map((call) => call.begin + call.time));
let view = { from: 0, to: end };
function timeline() {
  const svg = byId("timeline");
  const height = devices.length * ROW + 26;
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  svg.replaceChildren();
  const x = (time) => ((time - view.from) / (view.to - view.from)) * WIDTH;
  const add = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== undefined) made.textContent = text;
    svg.appendChild(made);
    return made;
  };
  for (let tick = 0; tick <= 6; tick += 1) {
    const time = view.from + ((view.to - view.from) * tick) / 6;
    const anchor = tick === 0 ? "start" : tick === 6 ? "end" : "middle";
    add("line", { x1: x(time), x2: x(time), y1: 0, y2: height - 20, stroke: "var(--line)" });
    add("text", { x: x(time), y: height - 6, "font-size": 11, fill: "var(--faint)", "text-anchor": anchor }, microseconds(time));
  }
  for (const call of DATA.calls) {
    const [left, right] = [x(call.begin), x(call.begin + call.time)];
    if (right < 0 || left > WIDTH) continue;
    const y = devices.indexOf(call.device) * ROW + 4;
    const width = Math.max(right - left, 0.4);
    const box = add("rect", { x: left, y, width, height: ROW - 8, rx: width > 6 ? 2 : 0, fill: hues.get(call.name) });
    box.onpointerenter = () => { byId("told").textContent = `${call.name}: ${microseconds(call.time)} from ${microseconds(call.begin)}  ${call.more.Nodes ?? ""}  ${call.shapes}`; };
    if (width > 70) {
      const most = Math.floor(width / 7);
      const text = call.name.length > most ? `${call.name.slice(0, most - 1)}…` : call.name;
      add("text", { x: Math.max(left, 0) + 5, y: y + 17, "font-size": 11, fill: "#10151d", "pointer-events": "none" }, text);
    }
  }
}
byId("timeline").onwheel = (event) => {
  event.preventDefault();
  const at = view.from + ((view.to - view.from) * event.offsetX) / byId("timeline").clientWidth;
  const factor = Math.exp(event.deltaY * 0.0015);
  move(at - (at - view.from) * factor, at + (view.to - at) * factor);
};
byId("timeline").onpointermove = (event) => {
  if (event.buttons !== 1) return;
  const by = (-event.movementX / byId("timeline").clientWidth) * (view.to - view.from);
  if (view.from + by >= 0 && view.to + by <= end) move(view.from + by, view.to + by);
};
function move(from, to) {
  if (to - from < 0.1) return;
  view = { from: Math.max(0, from), to: Math.min(end, to) };
  timeline();
}

// The bars, sorted by the column that was clicked.
const known = [...new Set(sorted.flatMap((row) => Object.keys(row.more)))].filter((name) => name !== "Hash");
const columns = [
  ["Kernel", (row) => row.name], ["Time", (row) => row.time], ["Share", (row) => row.time], ["", (row) => row.time],
  ["Calls", (row) => row.calls], ["GFLOP/s", rate], ["Bytes", (row) => row.bytes ?? -1], ...known.map((name) => [name, (row) => row.more[name] ?? ""]), ["Arguments", (row) => row.shapes],
];
let order = { column: 1, descending: true };
function bars() {
  const key = columns[order.column][1];
  const compare = (a, b) => (typeof key(a) === "number" ? key(a) - key(b) : String(key(a)).localeCompare(String(key(b))));
  const body = byId("bars").tBodies[0];
  body.replaceChildren();
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of [...sorted].sort((a, b) => (order.descending ? compare(b, a) : compare(a, b)))) {
    const line = put(body, "tr");
    const text = `${row.name} ${row.shapes} ${row.more.Nodes ?? ""}`.toLowerCase();
    if (words.length) { if (!words.every((word) => text.includes(word))) continue; line.className = "found"; }
    put(line, "td", row.name).className = "name";
    put(line, "td", microseconds(row.time)).className = "number";
    put(line, "td", `${((100 * row.time) / whole).toFixed(1)} %`).className = "number";
    const cell = put(line, "td");
    cell.className = "bar";
    const bar = put(cell, "div");
    bar.style.width = `${(100 * row.time) / sorted[0].time}%`;
    bar.style.background = hues.get(row.name);
    put(line, "td", row.calls).className = "number";
    put(line, "td", rateText(row)).className = "number";
    put(line, "td", bytesText(row.bytes)).className = "number";
    known.forEach((name) => { put(line, "td", row.more[name] ?? "").className = name === "Nodes" ? "shapes" : "number"; });
    put(line, "td", row.shapes).className = "shapes";
  }
}
const head = put(byId("bars").tHead, "tr");
columns.forEach(([name], column) => {
  put(head, "th", name).onclick = () => {
    order = { column, descending: order.column === column ? !order.descending : true };
    bars();
  };
});
byId("search").oninput = bars;

byId("title").textContent = DATA.title;
byId("count").textContent = `${microseconds(whole)} in all, ${microseconds(inKernels)} of it in ${DATA.calls.length} calls of ${hues.size} kernels`;
for (const [name, value] of Object.entries(DATA.configuration)) {
  const row = put(byId("configuration"), "tr");
  put(row, "th", name);
  put(row, "td", value);
}
timeline();
bars();
