// The diagram: a row per step, a column per thread and per peer. Only the rows in sight are drawn, so that its cost does not
// depend on the length of the trace.
"use strict";
(() => {
  const view = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const ROW = 26, NUMBERS = 58, BOX = 20;
  // Above the threads stand their processes, if there are several.
  const GROUP = view.processes.length ? 24 : 0, HEAD = 30 + GROUP, NAMES = GROUP + 15;
  const LOCKS = view.holds.length ? 26 : 12;
  const CHARACTER = 6.95; // width of one at 11.5px
  const HUES = [212, 28, 140, 285, 350, 185, 52, 255, 100, 320];
  const LOCK_HUES = [15, 265, 165, 330, 75, 200, 45, 300, 120, 235];

  const count = view.steps.length;
  const columns = Math.max(1, view.lanes.length + view.peers.length);
  const columnOf = (peer) => view.lanes.length + peer;
  const laneOf = new Map(view.lanes.map((lane, index) => [lane.thread, index]));
  const nameOf = (thread) => laneOf.has(thread) ? view.lanes[laneOf.get(thread)].name : `thread ${thread}`;
  const lastCommand = (group) => group.commands.length ? group.commands[group.commands.length - 1] : "";
  const commandOf = new Map(view.processes.map((group) => [group.process, lastCommand(group)]));
  const critical = view.verdict && view.verdict.critical !== null ? view.verdict.critical : -1;
  const lockNames = [...new Set(view.holds.map((hold) => hold.lock))];
  const lockHue = new Map(lockNames.map((name, index) => [name, LOCK_HUES[index % LOCK_HUES.length]]));
  const threadColour = (lane, light) => `hsl(${HUES[lane % HUES.length]} 65% ${light}%)`;
  const lockColour = (name) => `hsl(${lockHue.get(name)} 70% 48%)`;
  const until = (span) => (span.to === null ? count : span.to);

  const labels = view.steps.map((row) => row.label.replace(/^pthread_/, ""));
  const places = view.steps.map((row) => row.location.slice(row.location.indexOf("  ") < 0 ? 0 : row.location.indexOf("  ") + 2));
  // What was said in each step; a message is drawn at the peer's end, in the row of the program's step.
  const said = view.steps.map(() => []);
  for (const message of view.messages) if (said[message.step]) said[message.step].push(message);
  const isOutward = (message) => ["open", "refused", "send", "finish", "close", "break"].includes(message.kind);
  const WORDS = { open: "connects", accept: "connects", refused: "refused", finish: "ends its side", close: "closes", end: "ends its side", reset: "resets" };
  const wording = (message) => WORDS[message.kind] || `“${message.text}”${message.kind === "unread" ? " (never read)" : ""}`;
  const searchable = view.steps.map((row, n) =>
    [n, "thread", row.thread, nameOf(row.thread), commandOf.get(view.lanes[laneOf.get(row.thread)].process) || "", row.operation, labels[n], row.location, row.at,
      ...said[n].map((message) => `${view.peers[message.peer].name} ${view.peers[message.peer].command} ${message.kind} ${message.text}`)]
      .join(" ").toLowerCase());

  // Locks that a thread holds at the same time stand beside each other.
  const slotsInUse = new Map();
  for (const hold of [...view.holds].sort((a, b) => a.from - b.from)) {
    const ends = slotsInUse.get(hold.thread) || [];
    let slot = ends.findIndex((end) => end <= hold.from);
    if (slot < 0) slot = ends.length;
    ends[slot] = until(hold);
    slotsInUse.set(hold.thread, ends);
    hold.slot = slot;
  }

  let selected = 0;
  let matches = [];
  let isMatch = new Set();
  let laneWidth = 200, whereWidth = 300;
  const diagram = $("diagram");

  const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => escapes[c]);
  const fit = (text, width) => {
    const room = Math.max(3, Math.floor(width / CHARACTER));
    return text.length > room ? text.slice(0, room - 1) + "…" : text;
  };
  const laneLeft = (lane) => NUMBERS + lane * laneWidth;
  const boxLeft = (lane) => laneLeft(lane) + LOCKS;
  const boxWidth = () => laneWidth - LOCKS - 10;
  const axis = (lane) => boxLeft(lane) + 12;

  function layout() {
    const room = diagram.clientWidth - NUMBERS;
    whereWidth = places.some(Boolean) ? Math.max(180, Math.min(320, room * 0.25)) : 0;
    laneWidth = Math.max(columns > 4 ? 124 : 150, Math.min(380, (room - whereWidth) / columns));
    const width = Math.max(room + NUMBERS, NUMBERS + columns * laneWidth + whereWidth) - 1;
    const heads = groupHeads().concat(view.lanes.map((lane, index) =>
      `<g><title>${escape(lane.name)}</title><circle cx="${boxLeft(index) + 5}" cy="${NAMES}" r="5" fill="${threadColour(index, 50)}"/>` +
      `<text class="lane" x="${boxLeft(index) + 16}" y="${NAMES}">${escape(fit(GROUP && lane.thread ? `thread ${lane.thread}` : lane.name, boxWidth() - 16))}</text></g>`), view.peers.map((peer, index) => {
        const full = peer.name + (peer.command ? " · " + peer.command : "");
        const x = boxLeft(columnOf(index)), title = [peer.name, peer.command, `${peer.transport} ${peer.local || ""} ${peer.remote || ""}`];
        return `<g><title>${escape(title.join("\n"))}</title><rect x="${x}" y="0" width="${boxWidth()}" height="${HEAD}" fill="transparent"/>` +
          `<rect class="card" x="${x}" y="${NAMES - 5}" width="10" height="10" rx="2"/>` +
          `<text x="${x + 15}" y="${NAMES}">${escape(fit(full, boxWidth() - 14) === full ? full : fit(peer.name, boxWidth() - 14))}</text></g>`;
      }));
    $("lanes").setAttribute("width", width);
    $("lanes").setAttribute("height", HEAD);
    $("lanes").innerHTML = `<text class="number" x="8" y="${NAMES}">step</text>` + heads.join("") +
      (whereWidth ? `<text class="where" x="${laneLeft(columns) + 6}" y="${NAMES}">where</text>` : "");
    $("space").style.width = width + "px";
    $("space").style.height = (count + 1) * ROW + "px";
    $("window").setAttribute("width", width);
    drawOverview();
    draw();
  }

  const firstLane = (group) => view.lanes.findIndex((lane) => lane.process === group.process);

  // A head over the columns of each process: what people call it, and its command.
  function groupHeads() {
    return view.processes.map((group) => {
      const x = laneLeft(firstLane(group)), width = group.lanes * laneWidth, command = lastCommand(group);
      const title = [group.name, ...group.commands].join("\n");
      const words = group.name.replace(/^process /, "") + (command ? " · " + command.replace(/^\S*\//, "") : "");
      return `<g class="group"><title>${escape(title)}</title><rect class="group" x="${x + 4}" y="3" width="${width - 8}" height="${GROUP - 5}" rx="4"/>` +
        `<text class="lane" x="${x + 12}" y="${GROUP / 2 + 1}">${escape(fit(words, (width - 26) * 0.9))}</text></g>`;
    });
  }

  // Where one process's columns end and the next one's begin.
  function groupBorders(height) {
    return view.processes.slice(1).map((group) => {
      const x = laneLeft(firstLane(group));
      return `<line class="border" x1="${x}" x2="${x}" y1="0" y2="${height}"/>`;
    }).join("");
  }

  // y of the middle of a row, in the window that begins at row `first`; the end row has its upper edge.
  const middle = (row, first) => (row - first) * ROW + ROW / 2;
  const bottomOf = (span, first, last) => Math.min(middle(Math.min(until(span), last + 1), first), (count - first) * ROW);

  function draw() {
    const first = Math.max(0, Math.floor(diagram.scrollTop / ROW) - 3);
    const last = Math.min(count, first + Math.ceil(diagram.clientHeight / ROW) + 6);
    const inSight = (from, to) => from <= last && to >= first;
    const parts = [DEFINITIONS];
    const width = Number($("window").getAttribute("width"));
    for (let n = first; n <= last; n++) parts.push(rowBack(n, first, width));
    parts.push(groupBorders((last - first + 1) * ROW));
    view.lanes.forEach((lane, index) => {
      if (inSight(lane.from, until(lane))) parts.push(life(lane, index, first, last));
    });
    view.peers.forEach((peer, index) => {
      if (inSight(peer.from, until(peer))) parts.push(life(peer, columnOf(index), first, last));
    });
    for (const message of view.messages) {
      const end = message.kind === "unread" ? count : message.step;
      if (message.since !== null && message.since < end && inSight(message.since, end)) parts.push(inFlight(message, end, first, last));
    }
    for (const wait of view.waits) if (inSight(wait.from, until(wait))) parts.push(waitBar(wait, first, last));
    for (const hold of view.holds) if (inSight(hold.from, until(hold))) parts.push(holdBar(hold, first, last));
    for (const edge of view.edges) if (inSight(edge.from, edge.to)) parts.push(arrow(edge, first, last));
    for (let n = first; n < Math.min(last + 1, count); n++) parts.push(messageArrows(n, first), stepBox(n, first), messageBoxes(n, first));
    if (last === count) parts.push(endRow(first));
    const svg = $("window");
    svg.style.top = first * ROW + "px";
    svg.setAttribute("height", (last - first + 1) * ROW);
    svg.innerHTML = parts.join("");
  }

  const DEFINITIONS = '<defs>' +
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">' +
    '<rect width="6" height="6" fill="var(--back)"/><rect width="3" height="6" fill="var(--wait)"/></pattern>' +
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">' +
    '<path d="M0 0L8 4L0 8z" fill="var(--edge)"/></marker>' +
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">' +
    '<path d="M0 0L8 4L0 8z" fill="var(--message)"/></marker></defs>';

  function rowBack(n, first, width) {
    const classes = ["row"];
    if (isMatch.has(n)) classes.push("match");
    if (n === critical) classes.push("critical");
    if (n === selected) classes.push("selected");
    const title = n < count ? `${n}: ${view.steps[n].operation}\n${view.steps[n].location}` : view.end;
    return `<rect class="${classes.join(" ")}" data-step="${n}" x="0" y="${(n - first) * ROW}" width="${width}" height="${ROW}">` +
      `<title>${escape(title)}</title></rect>`;
  }

  function life(lane, index, first, last) {
    const top = middle(Math.max(lane.from, first - 1), first), bottom = bottomOf(lane, first, last);
    return `<line class="life" x1="${axis(index)}" x2="${axis(index)}" y1="${top}" y2="${bottom}"/>`;
  }

  function waitBar(wait, first, last) {
    const index = laneOf.get(wait.thread);
    const top = middle(Math.max(wait.from, first - 1), first), bottom = bottomOf(wait, first, last);
    return `<rect class="wait" x="${axis(index) - 4}" y="${top}" width="8" height="${Math.max(0, bottom - top)}" fill="url(#hatch)" stroke="var(--wait)">` +
      `<title>${escape(nameOf(wait.thread))} ${escape(wait.why)}</title></rect>`;
  }

  function holdBar(hold, first, last) {
    const index = laneOf.get(hold.thread);
    const top = middle(Math.max(hold.from, first - 1), first) - BOX / 2;
    const bottom = bottomOf(hold, first, last) + (hold.to === null ? 0 : BOX / 2);
    const x = boxLeft(index) - 7 - 6 * Math.min(hold.slot, 3);
    return `<rect class="hold" x="${x}" y="${top}" width="4" rx="2" height="${Math.max(4, bottom - top)}" fill="${lockColour(hold.lock)}">` +
      `<title>${escape(nameOf(hold.thread))} holds ${escape(hold.lock)}</title></rect>`;
  }

  function arrow(edge, first) {
    const from = laneOf.get(view.steps[edge.from].thread), to = laneOf.get(view.steps[edge.to].thread);
    if (from === to) return "";
    const near = edge.from === selected || edge.to === selected ? " near" : "";
    const rightward = to > from;
    const x1 = rightward ? boxLeft(from) + boxWidth() : boxLeft(from);
    const x2 = rightward ? boxLeft(to) : boxLeft(to) + boxWidth();
    const y1 = middle(edge.from, first), y2 = middle(edge.to, first);
    // A far cause comes down beside its target, not across the rows between.
    const x = rightward ? x2 - 16 : x2 + 16;
    const bend = edge.to - edge.from > 2
      ? `M${x1} ${y1}L${x - (rightward ? 10 : -10)} ${y1}Q${x} ${y1} ${x} ${y1 + 10}L${x} ${y2 - 10}Q${x} ${y2} ${x2} ${y2}`
      : `M${x1} ${y1}L${x2} ${y2}`;
    return `<path class="cause${near}" d="${bend}" marker-end="url(#head)"/>`;
  }

  // It had come, and waited to be read.
  function inFlight(message, end, first, last) {
    const x = axis(columnOf(message.peer)), top = middle(Math.max(message.since, first - 1), first) + BOX / 2;
    const bottom = Math.min(middle(Math.min(end, last + 1), first) - BOX / 2, (count - first) * ROW);
    return `<line class="waiting" x1="${x}" x2="${x}" y1="${top}" y2="${Math.max(top, bottom)}"/>`;
  }

  function messageArrows(n, first) {
    const near = n === selected ? " near" : "", y = middle(n, first);
    return said[n].filter((message) => message.thread !== null).map((message) => {
      const thread = boxLeft(laneOf.get(message.thread)) + boxWidth(), peer = boxLeft(columnOf(message.peer));
      const [from, to] = isOutward(message) ? [thread, peer] : [peer, thread];
      return `<line class="message${near}" x1="${from}" x2="${to}" y1="${y}" y2="${y}" marker-end="url(#tip)"/>`;
    }).join("");
  }

  function messageBoxes(n, first) {
    const y = middle(n, first), words = new Map();
    for (const message of said[n]) words.set(message.peer, (words.get(message.peer) || []).concat(wording(message)));
    return [...words].map(([peer, texts]) => {
      const x = boxLeft(columnOf(peer));
      return `<rect class="said" x="${x}" y="${y - BOX / 2}" width="${boxWidth()}" height="${BOX}" rx="9"/>` +
        `<text x="${x + 8}" y="${y}">${escape(fit(texts.join(" · "), boxWidth() - 16))}</text>`;
    }).join("");
  }

  function stepBox(n, first) {
    const row = view.steps[n], index = laneOf.get(row.thread), y = middle(n, first);
    const mark = n === critical ? " critical" : "";
    const fill = `hsl(${HUES[index % HUES.length]} 70% 50% / .${row.kind === "call" ? 16 : 30})`;
    const where = laneLeft(columns) + 6;
    return `<text class="number" x="8" y="${y}">${n === critical ? "! " : ""}${n}</text>` +
      `<rect x="${boxLeft(index)}" y="${y - BOX / 2}" width="${boxWidth()}" height="${BOX}" rx="4" fill="var(--back)" pointer-events="none"/>` +
      `<rect class="box${mark}" x="${boxLeft(index)}" y="${y - BOX / 2}" width="${boxWidth()}" height="${BOX}" rx="4" fill="${fill}" stroke="${n === critical ? "" : threadColour(index, 50)}"/>` +
      `<text x="${boxLeft(index) + 7}" y="${y}">${escape(fit(labels[n], boxWidth() - 14))}</text>` +
      `<text class="where" x="${where}" y="${y}">${escape(fit(places[n], whereWidth - 10))}</text>`;
  }

  function endRow(first) {
    const text = view.verdict ? `${view.verdict.kind}: ${view.verdict.message}` : view.end;
    const width = laneWidth * columns + whereWidth - LOCKS;
    return `<line class="ended" x1="${NUMBERS}" x2="${laneLeft(columns)}" y1="${(count - first) * ROW}" y2="${(count - first) * ROW}"/>` +
      `<text class="end" x="${boxLeft(0)}" y="${middle(count, first)}">${escape(fit("■ " + text, width))}</text>`;
  }

  // A line per step (or per few of them), so that who ran when is seen at once.
  function drawOverview() {
    const canvas = $("overview"), height = canvas.clientHeight || 1;
    canvas.width = 18;
    canvas.height = height;
    const pen = canvas.getContext("2d"), scale = height / (count + 1);
    view.steps.forEach((row, n) => {
      pen.fillStyle = threadColour(laneOf.get(row.thread), 55);
      pen.fillRect(0, n * scale, 12, Math.max(1, scale));
    });
    pen.fillStyle = "#e0b000";
    for (const n of matches) pen.fillRect(12, n * scale, 6, Math.max(2, scale));
    if (critical >= 0) {
      pen.fillStyle = "#d1301f";
      pen.fillRect(0, critical * scale, 18, Math.max(3, scale));
    }
  }

  const stepLink = (n) => `<a data-step="${n}">step ${n}</a>`;
  const dot = (colour) => `<span class="dot" style="background:${colour}"></span>`;
  const section = (title, lines) => (lines.length ? `<h2>${title}</h2>` + lines.map((line) => `<div class="mono">${line}</div>`).join("") : "");

  function detail() {
    const parts = [];
    if (selected < count) {
      const row = view.steps[selected], index = laneOf.get(row.thread);
      parts.push(`<h2>Step ${selected} of ${count}</h2><div>${dot(threadColour(index, 50))}${escape(view.lanes[index].name)}</div>` +
        (commandOf.get(view.lanes[index].process) ? `<div class="dim mono">${escape(commandOf.get(view.lanes[index].process))}</div>` : "") +
        `<div class="big" id="operation">${escape(row.operation)}</div>`);
      if (row.location) parts.push(`<div class="mono">${escape(row.location)}</div>`);
      parts.push(`<div class="mono">at ${row.at}</div>`);
      if (selected === critical) parts.push('<p class="bad">Critical: after this step every continuation ends in a violation.</p>');
    } else {
      parts.push(`<h2>The end, after ${count} steps</h2><div class="big" id="operation">${escape(view.end)}</div>`);
    }
    if (selected < count) parts.push(said[selected].map(spoken).join(""));
    const now = (span) => span.from <= selected && selected < until(span) + (span.to === null ? 1 : 0);
    parts.push(section("Locks held after it", view.holds.filter(now).map((hold) =>
      `${dot(lockColour(hold.lock))}${escape(hold.lock)}: ${escape(nameOf(hold.thread))}, since ${stepLink(hold.from)}`)));
    parts.push(section("Waiting", view.waits.filter(now).map((wait) =>
      `${dot(threadColour(laneOf.get(wait.thread), 50))}${escape(nameOf(wait.thread))} ${escape(wait.why)}`)));
    if (selected < count) parts.push(stack(view.steps[selected].stack));
    parts.push(section("Made possible by", view.edges.filter((edge) => edge.to === selected).map((edge) =>
      `${stepLink(edge.from)}: ${escape(labels[edge.from])}`)));
    parts.push(section("Makes possible", view.edges.filter((edge) => edge.from === selected).map((edge) =>
      `${stepLink(edge.to)}: ${escape(labels[edge.to])}`)));
    if (view.verdict) {
      const [head, ...rest] = view.verdict.message.split(/: |; /);
      parts.push(`<h2>Verdict</h2><div class="mono"><b class="bad">${escape(view.verdict.kind)}</b> ${escape(head)}</div>` +
        rest.map((line) => `<div class="mono">· ${escape(line)}</div>`).join(""));
    }
    $("detail").innerHTML = parts.join("");
  }

  const time = (nanoseconds) => new Date(nanoseconds / 1e6).toISOString().replace("T", " ").replace("Z", "");
  function spoken(message) {
    const peer = view.peers[message.peer], way = isOutward(message) ? "to" : "from";
    const verb = { send: "Sent to", receive: "Received from", unread: "Never read, from" }[message.kind];
    const lines = [`<h2>${verb ? `${verb} <span>${escape(peer.name)}</span>, ${message.bytes} byte${message.bytes === 1 ? "" : "s"}` : `<span>${escape(peer.name)}</span> ${way === "to" ? "(the program)" : "(the peer)"}`}</h2>`];
    if (peer.command) lines.push(`<div class="dim mono">${escape(peer.command)}</div>`);
    if (!verb) lines.push(`<div class="mono">${escape(wording(message))}</div>`);
    lines.push(`<div class="dim">${[peer.local, peer.remote].filter(Boolean).join(way === "to" ? " → " : " ← ")} at ${time(message.time)}</div>`);
    if (message.since !== null && message.since < message.step) lines.push(`<div class="dim">had come at ${stepLink(message.since)}</div>`);
    if (message.text) lines.push(`<pre class="payload">${escape(message.text.replaceAll("\\r\\n", "\\r\\n\n").replace(/(?<!\\r)\\n/g, "\\n\n").trimEnd())}</pre><pre class="payload hex">${escape(dump(message))}</pre>`);
    return lines.join("");
  }

  // Eight bytes per line, as they are and as text.
  function dump(message) {
    const bytes = message.hex.match(/../g) || [], lines = [];
    for (let at = 0; at < bytes.length; at += 8) {
      const part = bytes.slice(at, at + 8);
      const text = part.map((byte) => { const code = parseInt(byte, 16); return code > 31 && code < 127 ? String.fromCharCode(code) : "·"; });
      lines.push(`${at.toString(16).padStart(4, "0")}  ${part.join(" ").padEnd(23)}  ${text.join("")}`);
    }
    if (message.bytes > bytes.length) lines.push(`… ${message.bytes - bytes.length} more bytes: see show --pcap`);
    return lines.join("\n");
  }

  function stack(index) {
    if (index === null) return "";
    const frames = view.stacks[index];
    const lines = frames.map((frame, depth) => `<div class="mono${frame.own ? " own" : ""}">#${depth} ${escape(frame.text)}</div>`);
    const here = frames.find((frame) => frame.own && view.sources[frame.file]);
    return "<h2>Stack</h2>" + lines.join("") + (here ? source(here) : "");
  }

  function source(frame) {
    const around = Object.entries(view.sources[frame.file]).filter(([line]) => Math.abs(line - frame.line) <= 4);
    return `<h2>${escape(frame.file.replace(/.*\//, ""))}</h2><pre class="source">` + around.map(([line, text]) =>
      `<div class="${Number(line) === frame.line ? "here" : ""}">${line.padStart(5)}  ${escape(text)}</div>`).join("") + "</pre>";
  }

  function select(n) {
    selected = Math.max(0, Math.min(count, n));
    const top = selected * ROW, visible = diagram.clientHeight - HEAD;
    if (top < diagram.scrollTop + ROW) diagram.scrollTop = top - ROW * 2;
    else if (top + ROW * 2 > diagram.scrollTop + visible) diagram.scrollTop = top - visible + ROW * 3;
    history.replaceState(null, "", `#step=${selected}`);
    draw();
    detail();
    showMatches();
  }

  function search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    matches = [];
    if (words.length) searchable.forEach((line, n) => { if (words.every((word) => line.includes(word))) matches.push(n); });
    isMatch = new Set(matches);
    drawOverview();
    if (matches.length && !isMatch.has(selected)) select(matches.find((n) => n > selected) ?? matches[0]);
    else { draw(); showMatches(); }
  }

  function showMatches() {
    const at = matches.indexOf(selected);
    $("matches").textContent = !$("search").value.trim() ? "" : matches.length ? `${at < 0 ? "–" : at + 1} of ${matches.length}` : "no match";
  }

  const nextMatch = () => matches.length && select(matches.find((n) => n > selected) ?? matches[0]);
  const lastMatch = () => matches.length && select(matches.findLast((n) => n < selected) ?? matches[matches.length - 1]);
  function sameThread(direction) {
    const thread = view.steps[Math.min(selected, count - 1)].thread;
    for (let n = selected + direction; n >= 0 && n < count; n += direction) if (view.steps[n].thread === thread) return select(n);
  }
  function nextSwitch() {
    for (let n = selected + 1; n < count; n++) if (view.steps[n].thread !== view.steps[n - 1].thread) return select(n);
  }
  const page = () => Math.max(1, Math.floor(diagram.clientHeight / ROW) - 3);
  const keys = {
    j: () => select(selected + 1), ArrowDown: () => select(selected + 1),
    k: () => select(selected - 1), ArrowUp: () => select(selected - 1),
    l: () => sameThread(1), ArrowRight: () => sameThread(1),
    h: () => sameThread(-1), ArrowLeft: () => sameThread(-1),
    PageDown: () => select(selected + page()), PageUp: () => select(selected - page()),
    Home: () => select(0), g: () => select(0), End: () => select(count), G: () => select(count),
    n: nextMatch, N: lastMatch, s: nextSwitch,
    c: () => critical >= 0 && select(critical),
    "/": () => { $("search").focus(); $("search").select(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === $("search")) {
      if (event.key === "Escape") diagram.focus();
      else if (event.key === "Enter") (event.shiftKey ? lastMatch : nextMatch)();
      return;
    }
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  const follow = (event) => {
    const target = event.target.closest("[data-step]");
    if (target) select(Number(target.dataset.step));
  };
  $("window").addEventListener("click", follow);
  $("detail").addEventListener("click", follow);
  $("overview").addEventListener("click", (event) => select(Math.floor((event.offsetY / $("overview").clientHeight) * (count + 1))));
  $("search").addEventListener("input", () => search($("search").value));
  $("to-critical").hidden = critical < 0;
  $("to-critical").addEventListener("click", () => keys.c());
  $("to-end").addEventListener("click", () => select(count));
  let drawing = false;
  diagram.addEventListener("scroll", () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; draw(); });
  });
  window.addEventListener("resize", layout);

  $("headline").innerHTML = `<span class="badge${view.verdict ? " bad" : ""}">${escape(view.verdict ? view.verdict.kind : "trace")}</span>` +
    `<code>${escape([view.program, ...view.arguments].join(" "))}</code>` +
    `<span class="facts">${count} steps · ` + (GROUP ? `${view.processes.length} processes · ` : "") + `${view.lanes.length} threads` + (view.peers.length ? ` · ${view.peers.length} connections` : "") +
    (view.verdict ? ` · ${view.verdict.preemptions} preemption${view.verdict.preemptions === 1 ? "" : "s"}` : "") + ` · ${escape(view.end)}</span>`;
  layout();
  const wanted = /step=(\d+)/.exec(location.hash);
  select(wanted ? Number(wanted[1]) : critical >= 0 ? critical : Math.max(0, view.steps.findIndex((row) => row.kind === "start")));
  diagram.focus({ preventScroll: true });
})();
