// Keeps counts and plots live, says when the worker is gone, and finds it again. Every page works without it.
"use strict";

(() => {
  const main = document.getElementById("main");
  const gone = document.getElementById("gone");

  // A box in the head of a table that selects all of its rows.
  for (const table of document.querySelectorAll("table[data-selectable]")) {
    const head = table.querySelector("thead th");
    const boxes = [...table.querySelectorAll("tbody input[type=checkbox]")];
    const all = document.createElement("input");
    all.type = "checkbox";
    all.setAttribute("aria-label", "Select all");
    all.addEventListener("change", () => boxes.forEach((box) => { box.checked = all.checked; }));
    head.replaceChildren(all);
  }

  if (!main || !gone || !main.dataset.live) return;

  const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  const kinds = { running: "good", stopping: "bad" };
  const state = (name, word) => {
    for (const place of document.querySelectorAll("[data-state]")) {
      const shown = place.firstElementChild;
      if (place.dataset.state !== name || !shown) continue;
      set(shown, word.replaceAll(/[_-]/g, " "));
      shown.className = `state ${kinds[word] || "warn"}`;
    }
  };
  const counts = (attribute, pipelines, member, each) => {
    for (const place of document.querySelectorAll(`[data-${attribute}]`)) {
      const name = place.getAttribute(`data-${attribute}`);
      const pipeline = pipelines.find((it) => it.pipeline === name);
      const count = pipeline && pipeline[member] && pipeline[member][place.dataset.member];
      if (typeof count !== "number") continue;
      set(place, grouped(count));
      if (each) each(place, count);
    }
  };
  const due = (place, count) => place.classList.toggle("due", count > 0);
  const show = {
    status: (status) => {
      state("worker", status.state);
      for (const pipeline of status.pipelines) state(pipeline.pipeline, pipeline.state);
    },
    so_far: (told) => counts("live-of", told.pipelines, "so_far"),
    set_aside: (told) => counts("aside-of", told.pipelines, "set_aside", due),
  };
  // The newest of each event of the stream that is open.
  let told = {};

  // The page itself says what has become of the token: it leads to the one to log in at. A page that came of a form is not
  // to be sent again.
  const leave = () => {
    const path = location.pathname.replace(/^(\/runs\/[^/]+)\/stop$/, "$1");
    const isOfForm = path.startsWith("/orders/") || path === "/store/export";
    location.replace(isOfForm ? "/" : path + location.search);
  };

  // The parts of this page that the worker draws anew, but for one that somebody is in.
  const refresh = async () => {
    if (document.hidden || !document.querySelector("[data-refresh]")) return;
    const address = new URL(location.href);
    address.searchParams.set("part", "plots");
    const answer = await fetch(address, { signal: AbortSignal.timeout(PATIENCE) }).catch(() => null);
    if (!answer) return;
    if (answer.redirected) return leave();
    const text = answer.ok && await answer.text().catch(() => null);
    if (!text) return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of document.querySelectorAll("[data-refresh]")) {
      const name = part.dataset.refresh;
      const found = [...fresh.querySelectorAll("[data-refresh]")].find((it) => it.dataset.refresh === name);
      if (found && !part.contains(document.activeElement)) part.replaceChildren(...found.childNodes);
    }
    // What was told meanwhile is newer.
    for (const name of Object.keys(told)) show[name](told[name]);
  };

  // A stream says something each ten seconds, and a worker that hangs, or a way that drops everything, closes nothing: so
  // the time since the last word is looked at. `ask` is when to find out whether somebody is there.
  const SILENCE = 25000;
  const PATIENCE = 5000;
  let heard = performance.now();
  let ask = heard + SILENCE;
  let isAsking = false;
  let events = null;
  const hear = () => {
    heard = performance.now();
    ask = heard + SILENCE;
    if (gone.hidden) return;
    gone.hidden = true;
    refresh();
  };
  const look = async () => {
    if (document.hidden || isAsking || performance.now() < ask) return;
    isAsking = true;
    const since = new Date(Date.now() - (performance.now() - heard)).toLocaleTimeString();
    const before = heard;
    const signal = AbortSignal.timeout(PATIENCE);
    const answer = await fetch("/v1/status", { cache: "no-store", signal }).catch(() => null);
    isAsking = false;
    // The token is no longer good.
    if (answer && answer.status === 401) return leave();
    // An answer that is not the worker's is that of something before it.
    const kind = answer && answer.headers.get("content-type") || "";
    if (answer && (answer.status < 500 || kind.startsWith("application/problem+json"))) {
      // It is there, and the stream is not: ask for another one.
      stop();
      hear();
      return listen();
    }
    if (heard !== before) return;
    ask = performance.now() + 3000;
    set(gone, `The worker has not answered since ${since}. What you see is from before; this page looks for it.`);
    gone.hidden = false;
  };

  // A browser keeps few connections to one place, so that a page that nobody looks at gives its own up.
  const stop = () => {
    if (events) events.close();
    events = null;
    told = {};
  };
  const listen = () => {
    if (events || document.hidden) return;
    const stream = new EventSource("/v1/events");
    events = stream;
    stream.addEventListener("open", hear);
    stream.addEventListener("heartbeat", hear);
    stream.addEventListener("error", () => {
      told = {};
      ask = Math.min(ask, performance.now() + 2500);
      if (events !== stream || stream.readyState !== EventSource.CLOSED) return;
      // A browser gives up where the answer was no stream.
      stop();
      setTimeout(listen, 3000);
    });
    for (const name of Object.keys(show)) {
      stream.addEventListener(name, (event) => {
        hear();
        const isNews = name === "status" && told.status;
        told[name] = JSON.parse(event.data);
        show[name](told[name]);
        // The reasons of a state are drawn with it.
        if (isNews) refresh();
      });
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return stop();
    ask = performance.now() + SILENCE;
    listen();
    refresh();
  });
  addEventListener("pagehide", stop);
  // A page that comes back out of the memory of the browser.
  addEventListener("pageshow", listen);
  listen();
  setInterval(refresh, 15000);
  setInterval(look, 1000);
})();
