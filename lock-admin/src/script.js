// Replaces what has changed since the page was made, and keeps ages up to date. Without it the page reloads.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const live = byId("live");
  const rows = byId("rows");
  let seen = document.body.dataset.seen;
  // The clock of the service minus this one's.
  let ahead = Number(document.body.dataset.now) - Date.now();
  let heard = Date.now();
  let source = null;

  const duration = (seconds) =>
    seconds < 120 ? `${seconds} s`
    : seconds < 7200 ? `${Math.floor(seconds / 60)} min`
    : seconds < 172800 ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86400)} days`;

  const writeAges = (within) => {
    const now = Date.now() + ahead;
    for (const age of within.querySelectorAll(".age")) {
      const text = duration(Math.max(0, Math.floor((now - Number(age.dataset.since)) / 1000)));
      if (age.textContent !== text) age.textContent = text;
    }
  };

  // Focus stays on the same link of a part that is replaced.
  const keepingFocus = (change) => {
    const focused = document.activeElement;
    const owner = focused && focused.closest && focused.closest("[id]");
    const href = focused && focused.getAttribute && focused.getAttribute("href");
    change();
    if (!owner || !href || document.activeElement === focused) return;
    const now = byId(owner.id);
    const links = now ? [...now.querySelectorAll("a")] : [];
    const link = links.find((it) => it.getAttribute("href") === href);
    if (link) link.focus({ preventScroll: true });
  };

  const replace = (id, html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    const made = template.content.firstElementChild;
    writeAges(made);
    const old = byId(id);
    if (old) old.replaceWith(made);
    else rows.append(made);
  };

  const order = (ids) => {
    const kept = new Set(ids);
    for (const row of [...rows.children]) if (!kept.has(row.id)) row.remove();
    let next = rows.firstElementChild;
    for (const id of ids) {
      const row = byId(id);
      if (row === next) next = next.nextElementSibling;
      else if (row) rows.insertBefore(row, next);
    }
  };

  const filter = byId("filter");
  const wanted = filter.querySelector("input");
  const applyFilter = () => {
    const text = wanted.value.trim().toLowerCase();
    for (const row of rows.children) row.hidden = !row.textContent.toLowerCase().includes(text);
  };
  wanted.addEventListener("input", applyFilter);
  filter.hidden = false;

  const onMessage = (message) => {
    const { now, html, order: ids } = JSON.parse(message.data);
    seen = message.lastEventId;
    ahead = now - Date.now();
    heard = Date.now();
    keepingFocus(() => {
      for (const [id, part] of html) replace(id, part);
      if (ids) order(ids);
    });
    if (wanted.value) applyFilter();
  };

  const open = () => {
    heard = Date.now();
    source = new EventSource(`events?since=${encodeURIComponent(seen)}`);
    source.onmessage = onMessage;
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };

  // A page that is not visible costs nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!source) open();
  });
  addEventListener("pagehide", close);

  setInterval(() => {
    if (document.hidden) return;
    writeAges(document);
    const silence = Math.floor((Date.now() - heard) / 1000);
    const text = silence < 25 ? "Live" : `Not live: no word for ${duration(silence)}`;
    if (live.textContent !== text) live.textContent = text;
    document.body.classList.toggle("stale", silence >= 25);
    // An answer that is no stream, such as that of a login, ends it.
    if (!source || source.readyState === EventSource.CLOSED) open();
  }, 1000);

  live.textContent = "Live";
  if (!document.hidden) open();
})();
