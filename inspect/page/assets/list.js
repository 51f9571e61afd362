// The list: all rows are kept, and those that can be seen are in the table.

import {
  $, fillFormer, follow, holder, hour, match, now, put, putAge, spell, thousands, whoWait,
} from "./live.js";

const LIMIT = 1, BROKEN = 2, FOREIGN = 4, ODD = 8;
const extra = 12; // rows above and below those that can be seen

const rows = new Map(); // by ID
let shown = []; // those that match, in order
let elements = new Map(); // of rows, by ID: those in the table
let loaded = false, cut = false;
let told = null; // the latest event
let losses = [];
let words = [], column = "held", backward = true;

const table = $("locks"), body = $("rows"), filter = $("filter");

// read makes a row of the array that rows.go sends.
function read([
  id, name, flags, slots, node, pid, op, since, until, places, tasks, callers, hash, query,
]) {
  const who = slots ? holder(node, pid) + (slots > 1 ? ` +${thousands(slots - 1)}` : "") : "";
  query ??= "name=" + encodeURIComponent(name) + (flags & LIMIT ? "&limit=1" : "");
  return { id, name, flags, slots, node, pid, op, who, since, until, places, tasks, callers,
    waiting: places + tasks + callers, hash, query,
    text: `${name} ${op} ${who}`.toLowerCase() };
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const orders = {
  name: (a, b) => compare(a.name, b.name),
  op: (a, b) => compare(a.op, b.op),
  holder: (a, b) => compare(a.node, b.node) || a.pid - b.pid,
  held: (a, b) => b.since - a.since,
  left: (a, b) => a.until - b.until,
  waiting: (a, b) => a.waiting - b.waiting,
};

// has reports whether a row is one that the filter wants, as list.go does.
const has = (row) => words.every((word) =>
  row.text.includes(word) || word.length >= 6 && row.hash.startsWith(word));

function arrange() {
  const order = orders[column], sign = backward ? -1 : 1;
  shown = [];
  for (const row of rows.values()) {
    if (has(row)) shown.push(row);
  }
  shown.sort((a, b) => sign * order(a, b) || compare(a.name, b.name) || a.id - b.id);
}

function build(row) {
  const element = $("row").content.firstElementChild.cloneNode(true);
  element.dataset.id = row.id;
  return element;
}

function fill(element, row) {
  const cell = (selector) => element.querySelector(selector);
  if (element.row !== row) {
    element.row = row;
    const link = cell("a");
    put(link.firstElementChild, row.name);
    link.title = row.name;
    link.href = "lock?" + row.query;
    link.classList.toggle("odd", !!(row.flags & ODD));
    cell(".tag.limit").hidden = !(row.flags & LIMIT);
    cell(".tag.broken").hidden = !(row.flags & BROKEN);
    cell(".tag.foreign").hidden = !(row.flags & FOREIGN);
    put(cell(".op bdi"), row.op);
    put(cell(".holder bdi"), row.who);
    put(cell(".waiting"), thousands(row.waiting));
    cell(".waiting").classList.toggle("none", !row.waiting);
  }
  if (row.slots) {
    putAge(cell(".age"), row.since);
    put(cell(".left"), spell(row.until - now()));
  } else {
    put(cell(".age"), "");
    cell(".age").className = "age h0";
    put(cell(".left"), "");
  }
}

// render puts the rows into the table that can be seen, and gaps in place of the others.
function render() {
  if (!loaded) return;
  const focused = document.activeElement;
  const height = body.firstElementChild?.getBoundingClientRect().height || 40;
  const top = table.getBoundingClientRect().top + table.tHead.offsetHeight;
  const first = Math.max(0, Math.min(Math.floor(-top / height) - extra, shown.length - 1));
  const last = Math.min(shown.length, Math.ceil((innerHeight - top) / height) + extra);
  const next = new Map();
  let at = body.firstElementChild;
  for (let i = first; i < last; i++) {
    const row = shown[i];
    const element = elements.get(row.id) ?? build(row);
    next.set(row.id, element);
    fill(element, row);
    element.ariaRowIndex = i + 2;
    if (element === at) at = at.nextElementSibling;
    else body.insertBefore(element, at);
  }
  while (at) {
    const after = at.nextElementSibling;
    at.remove();
    at = after;
  }
  elements = next;
  gap($("above"), first * height);
  gap($("below"), (shown.length - last) * height);
  table.ariaRowCount = shown.length + 1;
  // An element that has been moved has lost the focus.
  if (focused !== document.activeElement && focused?.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

function gap(element, height) {
  element.hidden = height <= 0;
  element.rows[0].cells[0].style.height = Math.max(0, height) + "px";
}

function tell() {
  const query = filter.value.trim();
  put($("found"), query ? `${thousands(shown.length)} of ${thousands(rows.size)}` : "");
  $("cut").hidden = !cut;
  put($("cut").querySelector(".most"), thousands(rows.size));
  $("empty").hidden = shown.length > 0;
  put($("empty").firstElementChild, rows.size ? "No lock that is listed matches the filter."
    : "No lock is held. Locks appear here when they are taken.");
  $("look").hidden = !query || (shown.length > 0 && !cut);
  const name = "name=" + encodeURIComponent(filter.value);
  $("look").querySelector(".lock").href = "lock?" + name;
  $("look").querySelector(".limit").href = "lock?limit=1&" + name;
  const isHash = words.length === 1 && /^[0-9a-f]{6,16}$/.test(words[0]);
  $("look").querySelector(".by-hash").hidden = !isHash;
  if (isHash) $("look").querySelector(".hashed").href = "lock?hash=" + words[0];
}

// glance fills the first row, as glance.go does.
function glance() {
  let held = 0, places = 0, tasks = 0, callers = 0, worst = null, oldest = null;
  for (const row of rows.values()) {
    places += row.places;
    tasks += row.tasks;
    callers += row.callers;
    if (row.waiting && (!worst || row.waiting > worst.waiting ||
        row.waiting === worst.waiting && row.name < worst.name)) worst = row;
    if (!row.slots) continue;
    held++;
    if (!oldest || row.since < oldest.since) oldest = row;
  }
  tile("holds", thousands(held) + (cut ? "+" : ""));
  tile("wait", thousands(places + tasks + callers), whoWait(places, tasks, callers));
  tile("worst", worst?.name ?? "–", worst ? `${thousands(worst.waiting)} waiting` : "", worst);
  tile("oldest", oldest?.name ?? "–", oldest ? spell(now() - oldest.since) : "", oldest);
  const looked = now() - told.began;
  const since = looked < hour ? `in the ${spell(looked)} that this page has looked` : "in the last hour";
  tile("lost", thousands(told.lost), (told.broken ? `${thousands(told.broken)} broken, ` : "") + since);
  $("glance").querySelector(".lost").classList.toggle("bad", told.lost > 0);
  tile("store", "answers", `read in ${thousands(told.took)} ms`);
  $("glance").querySelector(".store").classList.remove("bad");
}

// tile fills one part of the first row. Its row is that of a lock; null if there is none.
function tile(kind, text, note = "", row) {
  const element = $("glance").querySelector("." + kind);
  put(element.querySelector("b, bdi"), text);
  if (kind !== "holds") put(element.querySelector("small"), note);
  if (row === undefined) return;
  const link = element.querySelector("dd a");
  link.classList.toggle("odd", !!row && !!(row.flags & ODD));
  if (row) link.href = "lock?" + row.query;
  else link.removeAttribute("href");
}

function away() {
  tile("store", "no data", "");
  $("glance").querySelector(".store").classList.add("bad");
}

function showLosses() {
  const some = losses.filter(has);
  $("lost").hidden = !some.length;
  match($("lost").querySelector("tbody"), $("loss"), some, (l) => l.query + l.fence + l.how, (row, l) => {
    fillFormer(row, l);
    const link = row.querySelector(".name a");
    put(link.firstElementChild, l.name);
    link.href = "lock?" + l.query;
    link.classList.toggle("odd", l.odd);
    row.querySelector(".tag.limit").hidden = !l.limit;
  });
}

function change() {
  arrange();
  tell();
  tick();
}

function tick() {
  render();
  if (!loaded) return;
  glance();
  showLosses();
}

function news(data) {
  if (data.whole) rows.clear();
  for (const row of data.set ?? []) rows.set(row[0], read(row));
  for (const [id, until] of data.until ?? []) rows.get(id).until = until;
  for (const id of data.gone ?? []) rows.delete(id);
  if (data.whole) elements.clear();
  loaded = true;
  cut = !!data.cut;
  told = data;
  if (data.whole) losses = [];
  if (data.losses) {
    losses = data.losses.map((l) => ({ ...l,
      text: `${l.name} ${l.op} ${holder(l.node, l.pid)}`.toLowerCase() }));
  }
  if (data.whole || data.set || data.gone || data.until && column === "left") change();
  else tick();
}

// sort orders the rows by a button's value, and remembers that in the address.
function sort(value) {
  backward = value.startsWith("-");
  column = backward ? value.slice(1) : value;
  $("sort").value = value;
  for (const button of table.tHead.querySelectorAll("button")) {
    const name = button.dataset.column;
    const mine = name === column;
    button.parentElement.ariaSort = mine ? (backward ? "descending" : "ascending") : "none";
    const most = name === "held" || name === "waiting"; // the most first
    button.value = (mine ? !backward : most) ? "-" + name : name;
  }
}

function search() {
  words = filter.value.toLowerCase().split(/\s+/).filter(Boolean)
    .map((word) => word.replace(/^lock_hash=/, ""));
}

function remember() {
  const query = new URLSearchParams({ q: filter.value, sort: $("sort").value });
  history.replaceState(null, "", "?" + query);
}

filter.addEventListener("input", () => {
  search();
  remember();
  if (loaded) change();
});

$("view").addEventListener("submit", (e) => {
  e.preventDefault();
  if (e.submitter?.name === "sort") sort(e.submitter.value);
  else if (!shown.length && !$("look").querySelector(".by-hash").hidden) {
    location.assign($("look").querySelector(".hashed").href);
    return;
  }
  remember();
  if (loaded) change();
});

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/" && document.activeElement !== filter) {
    e.preventDefault();
    filter.focus();
    filter.select();
  } else if (e.key === "Escape" && document.activeElement === filter) {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
    filter.blur();
  } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    step(e, e.key === "ArrowDown" ? 1 : -1);
  }
});

// step moves the focus by rows, out of the filter too.
function step(e, by) {
  const element = document.activeElement.closest("#rows tr");
  if (!loaded || !element && (document.activeElement !== filter || by < 0)) return;
  e.preventDefault();
  const from = element ? shown.indexOf(element.row) : -1;
  const row = shown[from + by];
  if (!row) return by < 0 && filter.focus();
  elements.get(row.id)?.querySelector("a").focus();
  elements.get(row.id)?.scrollIntoView({ block: "nearest" });
}

let drawing = 0;
function draw() {
  drawing ||= requestAnimationFrame(() => { drawing = 0; render(); });
}
addEventListener("scroll", draw, { passive: true });
addEventListener("resize", draw);

search();
sort($("sort").value);
follow("events", "locks", news, tick, away);
