// One lock: who has it, and the line of those who wait.

import {
  $, fillFormer, follow, holder, hour, match, now, put, putAge, putTrace, spell, thousands, whoWait,
} from "./live.js";

const query = document.body.dataset.query;
let lock = null;

// slots.go gives reasons; lock.go words them in the same way.
function brokenText(b) {
  if (b.replaced) return "replaced by a newer call";
  return `broken ${b.force ? "by force " : ""}by ${b.by}` + (b.why ? `: ${b.why}` : "");
}

function fillSlot(row, slot) {
  const cell = (selector) => row.querySelector(selector);
  row.classList.toggle("is-broken", !!slot.broken);
  put(cell(".holder bdi"), holder(slot.node, slot.pid));
  putTrace(cell(".trace"), slot.trace);
  put(cell(".op bdi"), slot.op);
  put(cell(".fence code"), slot.fence);
  putAge(cell(".age"), slot.since);
  put(cell(".left"), spell(slot.until - now()));
  const button = cell(".act a");
  if (button) {
    button.href = `break?${query}&fence=${encodeURIComponent(slot.fence)}`;
    button.hidden = !!slot.broken;
  }
  cell(".why").hidden = !slot.broken;
  put(cell(".why bdi"), slot.broken ? brokenText(slot.broken) : "");
}

function fillPlace(row, place, i) {
  const cell = (selector) => row.querySelector(selector);
  put(cell(".number"), String(i + 1));
  put(cell(".holder bdi"), holder(place.node, place.pid));
  put(cell(".op bdi"), place.op);
  put(cell(".version bdi"), place.version);
  put(cell(".since"), spell(now() - place.since));
}

const who = () => whoWait(lock.waiting, lock.tasks, lock.callers);

function summary() {
  const parts = [];
  const add = (n, text) => {
    const b = document.createElement("b");
    b.textContent = thousands(n);
    parts.push(b, ` ${text} `);
  };
  add(lock.held, "held");
  add(lock.waiting + lock.tasks + lock.callers, "waiting" + (who() && `: ${who()}`));
  if (lock.turns) add(lock.turns, "kept for those whose turn has come");
  $("summary").replaceChildren(...parts);
}

function render() {
  if (!lock) return;
  match($("slots").tBodies[0], $("slot"), lock.slots, (s) => s.fence, fillSlot);
  match($("places").tBodies[0], $("place"), lock.places, (_, i) => String(i), fillPlace);
  match($("former").tBodies[0], $("former-row"), lock.former, (f) => f.fence, (row, former) => {
    fillFormer(row, former);
    put(row.querySelector(".fence code"), former.fence);
  });
  put($("seen"), spell(Math.min(now() - lock.began, hour)));
}

function news(data) {
  if (data.lock) {
    lock = data.lock;
    summary();
    $("foreign").hidden = !lock.foreign;
    $("free").hidden = lock.slots.length > 0;
    $("nobody").hidden = !!who();
    $("former").hidden = !lock.former.length;
    $("more-slots").hidden = lock.held <= lock.slots.length;
    put($("more-slots").querySelector("span"), thousands(lock.held));
    $("more-places").hidden = lock.waiting <= lock.places.length;
    put($("more-places").querySelector("span"), thousands(lock.waiting));
  }
  render();
}

follow("events?" + query, "lock", news, render, () => {});
