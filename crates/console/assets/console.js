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
      set(shown, word.replaceAll("_", " "));
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

  // The parts of this page that the worker draws anew.
  const refresh = async () => {
    if (document.hidden || !document.querySelector("[data-refresh]")) return;
    const address = new URL(location.href);
    address.searchParams.set("part", "plots");
    const answer = await fetch(address).catch(() => null);
    if (!answer) return;
    if (answer.redirected) return location.reload();
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-refresh]")) {
      const name = part.dataset.refresh;
      const found = [...fresh.querySelectorAll("[data-refresh]")].find((it) => it.dataset.refresh === name);
      if (found) part.replaceChildren(...found.childNodes);
    }
  };

  let missed = null;
  const back = () => {
    clearTimeout(missed);
    missed = null;
    if (gone.hidden) return;
    gone.hidden = true;
    refresh();
  };
  const lost = () => {
    if (missed) return;
    const since = new Date().toLocaleTimeString();
    missed = setTimeout(async () => {
      const patience = AbortSignal.timeout(5000);
      const answer = await fetch("/v1/status", { cache: "no-store", signal: patience }).catch(() => null);
      // The token is no longer good.
      if (answer && answer.status === 401) return location.reload();
      if (answer) { missed = null; return; }
      set(gone, `The worker has not answered since ${since}. What you see is from before; this page looks for it.`);
      gone.hidden = false;
    }, 2500);
  };

  // A browser keeps few connections to one place, so that a page that nobody looks at gives its own up.
  let events = null;
  const stop = () => {
    if (events) events.close();
    events = null;
  };
  const listen = () => {
    if (events || document.hidden) return;
    events = new EventSource("/v1/events");
    events.addEventListener("open", back);
    events.addEventListener("error", () => {
      lost();
      if (!events || events.readyState !== EventSource.CLOSED) return;
      // A browser gives up where the answer was no stream.
      stop();
      setTimeout(listen, 3000);
    });
    events.addEventListener("status", (event) => {
      const status = JSON.parse(event.data);
      state("worker", status.state);
      for (const pipeline of status.pipelines) state(pipeline.pipeline, pipeline.state);
    });
    events.addEventListener("so_far", (event) => {
      counts("live-of", JSON.parse(event.data).pipelines, "so_far");
    });
    events.addEventListener("set_aside", (event) => {
      const due = (place, count) => place.classList.toggle("due", count > 0);
      counts("aside-of", JSON.parse(event.data).pipelines, "set_aside", due);
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return stop();
    listen();
    refresh();
  });
  addEventListener("pagehide", stop);
  listen();
  setInterval(refresh, 15000);
})();
