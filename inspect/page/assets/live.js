// What the two live pages share: the stream, its state, and times.

const ages = document.body.dataset.ages.split(" ").map(Number);
const silent = 5_000, dead = 75_000; // ms without an event: say so; connect again

let ahead = 0; // how far the server's clock is ahead of performance.now()
let heard = 0; // when the last event came
let source = null;
let failures = 0;
let retry = 0;

export const $ = (id) => document.getElementById(id);

// now is the server's time, by which all times are told.
export const now = () => performance.now() + ahead;

// put changes an element's text only if it is another one.
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const thousands = (n) => n.toLocaleString("en-US");

// spell is how long, in the two largest units. text.go does the same.
export function spell(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (big, unit, small, rest) => `${big} ${unit} ${String(small).padStart(2, "0")} ${rest}`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
  return two(Math.floor(s / 86400), "d", Math.floor(s / 3600) % 24, "h");
}

// putAge shows since when.
export function putAge(element, since) {
  const ms = now() - since;
  put(element, spell(ms));
  const name = "age h" + ages.filter((from) => ms >= from * 1000).length;
  if (element.className !== name) element.className = name;
}

// holder says who it is, without what it does. lock.go does the same.
export function holder(node, pid) {
  if (!node && !pid) return "unknown";
  if (!pid) return node;
  return node ? `${node} · ${pid}` : `pid ${pid}`;
}

// whoWait says who they are that wait, as glance.go does.
export function whoWait(places, tasks, callers) {
  return [
    [places, "process", "processes"], [tasks, "task", "tasks"],
    [callers, "caller in the holder’s process", "callers in the holder’s process"],
  ].filter(([n]) => n).map(([n, one, many]) => `${thousands(n)} ${n === 1 ? one : many}`).join(", ");
}

// hour is how long, in ms, it is kept what was seen.
export const hour = 3_600_000;

// match has a table's body keep one row an item, in order, and those that are there already by key.
export function match(body, template, items, key, fill) {
  const focused = document.activeElement;
  const old = new Map();
  for (const row of body.rows) if (row.dataset.key) old.set(row.dataset.key, row);
  const rows = items.map((item, i) => {
    const k = key(item, i);
    const row = old.get(k) ?? template.content.firstElementChild.cloneNode(true);
    row.dataset.key = k;
    fill(row, item, i);
    return row;
  });
  if (rows.length !== body.rows.length || rows.some((row, i) => row !== body.rows[i])) {
    body.replaceChildren(...rows);
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }
}

// fillFormer fills in what rows of former holders and of losses have in common, as former.go does.
export function fillFormer(row, former) {
  const cell = (selector) => row.querySelector(selector);
  put(cell(".holder bdi"), holder(former.node, former.pid));
  putTrace(cell(".trace"), former.trace);
  put(cell(".op bdi"), former.op);
  put(cell(".held"), spell(former.at - former.since));
  const when = cell("time");
  put(when, `${spell(now() - former.at)} ago`);
  when.dateTime = when.title = new Date(former.at).toISOString().replace(/\.\d+/, "");
  put(cell(".how bdi"), former.how || "ended");
}

// putTrace shows a trace, and leads to it.
export function putTrace(element, trace) {
  element.hidden = !trace;
  put(element.querySelector("code"), trace);
  const link = element.querySelector("a"); // if the page knows where
  if (link && trace) link.href = document.body.dataset.trace.replaceAll("{trace}", trace);
}

function state(kind, words) {
  const element = $("state");
  element.dataset.kind = kind;
  put(element.querySelector(".words"), words);
  document.body.dataset.stream = kind;
}

// notice shows what is wrong with the store; null for nothing.
export function notice(fault) {
  const element = $("notice");
  element.hidden = !fault;
  for (const part of ["title", "advice", "detail"]) {
    put(element.querySelector("." + part), fault ? fault[part] : "");
  }
}

// follow connects to the stream and keeps connected. news gets what comes as an event of the kind;
// tick runs once a second, and away when the store has not answered.
export function follow(url, kind, news, tick, away) {
  const connect = () => {
    clearTimeout(retry);
    source?.close();
    source = new EventSource(url);
    heard = performance.now();
    source.addEventListener(kind, (e) => {
      const data = JSON.parse(e.data);
      heard = performance.now();
      ahead = data.now - heard;
      failures = 0;
      notice(null);
      state("live", "Live");
      news(data);
    });
    source.addEventListener("fault", (e) => {
      heard = performance.now();
      failures = 0;
      state("fault", "No data");
      notice(JSON.parse(e.data));
      away();
    });
    source.onerror = lost;
  };
  const lost = () => {
    source.close();
    source = null;
    failures++;
    state("lost", failures < 4 ? "Connection lost; trying again" :
      "Connection lost; trying again. You may have to reload and sign in");
    // Not all at once when a server comes back.
    const pause = Math.min(1000 * 2 ** failures, 15_000) * (0.5 + Math.random());
    clearTimeout(retry);
    retry = setTimeout(connect, pause);
  };
  // A tab that nobody sees costs the store nothing, and none of the few connections to one server.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(retry);
      source?.close();
      source = null;
      state("still", "Paused");
    } else if (!source) {
      connect();
    }
  });
  setInterval(() => {
    if (document.hidden) return;
    const quiet = performance.now() - heard;
    if (source && quiet > dead) lost();
    if (document.body.dataset.stream !== "live") return; // what is not known does not get older
    if (quiet > silent) put($("state").querySelector(".words"), `As of ${spell(quiet)} ago`);
    tick();
  }, 1000);
  state("still", "Connecting");
  if (!document.hidden) connect();
}
