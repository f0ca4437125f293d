// What the streams take at present: events per second, the newest event, and what lags behind.

import { get, Problem, streamPath } from "../api.js";
import { fill, h, keepFocus, s } from "../dom.js";
import { plural, showNumber } from "../format.js";
import { showEmpty } from "../parts/problem.js";
import { ageWords, lengthWords, LOOKED_SECONDS, rateOf, rateWords, SAMPLE } from "../parts/rate.js";
import { repeatWhileSeen } from "../parts/repeat.js";
import { showWork } from "../parts/work.js";
import { may } from "../rights.js";
import { hashOf } from "../state.js";
import { showTime, zoneName } from "../times.js";

const PAUSE_SECONDS = 60;
// So many streams are read at the same time.
const AT_ONCE = 4;
// A rollup or a queue that is later than this needs a look.
const LATE_SECONDS = 600;

/**
 * What is known of a stream: the sample of its newest events, what the operators' route says, and what went wrong last.
 * @typedef {{ sample: { newest: number | null, rate: number, seconds: number } | null, activity: any, problem: Problem | null }} Pulse
 */

/** @typedef {{ stage: any, work: any[] | null, ringing: any[] | null, read: number, problem: Problem | null, failed: boolean, busy: boolean }} State
 *   `read` is when everything was read last, or 0; `failed` is of the present reading, `problem` of the last one that failed */

/** @param {HTMLElement} place @param {URLSearchParams} _ @param {any[]} streams @param {AbortSignal} signal @param {string[]} can */
export function showNow(place, _, streams, signal, can) {
  const rollups = new Set(streams.flatMap((stream) => stream.rollups.map((/** @type {any} */ rollup) => rollup.stream)));
  const shown = streams.filter((stream) => !rollups.has(stream.stream));
  const operates = can.includes("operate");
  /** @type {Map<string, Pulse>} */
  const pulses = new Map(shown.map((stream) => [stream.stream, { sample: null, activity: null, problem: null }]));
  const state = /** @type {State} */ ({ stage: null, work: null, ringing: null, read: 0, problem: null, failed: false, busy: false });
  const top = h("div.facts-row");
  const list = h("ul.pulses", { "aria-label": "Streams" });
  const work = h("div");
  const status = h("p.hint.status", { role: "status" });
  const again = h("button", { type: "button", name: "again", onclick: () => run() }, "Read again");
  fill(place, h("div.viewbar", {}, h("h1", {}, "Now"), status, again), operates ? top : null,
    shown.length ? list : showEmpty("No streams", "tidetable.toml names the streams of a stage."), operates ? work : null);
  draw();
  const run = repeatWhileSeen(turn, PAUSE_SECONDS, signal);
  const clock = setInterval(tick, 1000);
  signal.addEventListener("abort", () => clearInterval(clock));

  /** Read everything once. Each answer is shown as it comes. @returns {Promise<number>} */
  async function turn() {
    state.busy = true;
    // What went wrong before holds until everything was read.
    state.failed = false;
    draw();
    const waiting = [...shown];
    const read = async () => {
      for (let stream = waiting.shift(); stream && !signal.aborted; stream = waiting.shift()) await readStream(stream);
    };
    await Promise.all([operates ? readStage() : null, ...Array.from({ length: AT_ONCE }, read)]);
    state.busy = false;
    if (!state.failed) [state.read, state.problem] = [Date.now(), null];
    if (!signal.aborted) draw();
    return waitOf(state);
  }

  async function readStage() {
    await attempt(async () => {
      const [activity, alarms] = await Promise.all([get("v1/activity", {}, signal), get("v1/alarms", {}, signal)]);
      [state.stage, state.work] = [activity.body.stage, activity.body.work];
      state.ringing = alarms.body.alarms.filter((/** @type {any} */ alarm) => alarm.state === "ALARM");
      for (const row of activity.body.streams) {
        const pulse = pulses.get(row.stream);
        if (pulse) pulse.activity = row;
      }
    }, null);
  }

  /** @param {any} stream */
  async function readStream(stream) {
    const pulse = /** @type {Pulse} */ (pulses.get(stream.stream));
    // The newest event of all series has no place of its own in a table by series.
    if (!may("read") || stream.layout.partition_by === "series") return;
    await attempt(async () => {
      // A field that no event has: only the times are wanted.
      const { body } = await get(streamPath(stream.stream, "events"), { from: `-${LOOKED_SECONDS}s`, limit: SAMPLE, refs: "false", fields: "-" }, signal);
      const times = body.events.map((/** @type {any} */ event) => Date.parse(event.time));
      pulse.sample = { newest: times[0] ?? null, ...rateOf(times, Boolean(body.next), Date.now()) };
    }, pulse);
  }

  /** @param {() => Promise<void>} act @param {Pulse | null} pulse */
  async function attempt(act, pulse) {
    try {
      await act();
      if (pulse) pulse.problem = null;
    } catch (error) {
      if (signal.aborted) return;
      const problem = error instanceof Problem ? error : new Problem(0, "console_error", String(error));
      if (pulse) pulse.problem = problem;
      [state.problem, state.failed] = [problem, true];
    }
    if (!signal.aborted) draw();
  }

  function draw() {
    fill(status, statusText(state));
    status.classList.toggle("remedy", Boolean(state.problem));
    if (operates) fill(top, showStage(state.stage, state.ringing, Boolean(state.read)));
    keepFocus(work, () => fill(work, state.work && showWork(state.work)));
    place.classList.toggle("stale", Boolean(state.problem && state.read));
    keepFocus(list, () => fill(list, shown.map((stream) => showPulse(stream, /** @type {Pulse} */ (pulses.get(stream.stream)), state.read > 0, operates))));
  }

  /** Ages grow between two readings. */
  function tick() {
    for (const time of list.querySelectorAll("time")) time.textContent = ageWords(Date.now() - Date.parse(time.dateTime));
  }
}

/** The seconds that the API wants to be left alone. @param {State} state */
function waitOf(state) {
  return state.problem?.wait ?? 0;
}

/** @param {State} state */
function statusText({ busy, read, problem }) {
  const asOf = read ? `as of ${showTime(read)}, ${zoneName()}` : "";
  if (problem) return `${asOf ? `Stale: ${asOf}. ` : ""}${problem.message}`;
  return busy && !read ? "Reading…" : asOf.replace("as", "As");
}

/** @param {any} stage @param {any[] | null} ringing @param {boolean} read */
function showStage(stage, ringing, read) {
  if (!stage && !ringing) return read ? null : h("span.hint", {}, "Reading the stage's figures…");
  const alarms = !ringing ? null : fact("Alarms", ringing.length ? h("a", { href: "#tide" }, `${showNumber(ringing.length)} ${ringing.length === 1 ? "rings" : "ring"}`) : "none rings", "", ringing.length > 0);
  if (!stage) return alarms;
  return [
    fact("All events", ...rateWords(stage.events_per_second)),
    fact("In the queue", stage.queue_seconds === null && !stage.queued_per_second ? "none" : `${Math.round(stage.queue_seconds ?? 0)} s`, stage.queued_per_second ? `${rateWords(stage.queued_per_second).join(" ")} queued` : "", stage.queue_seconds > LATE_SECONDS),
    stage.rollup_lag_seconds === null ? null : lagOf("Rollups", stage.rollup_lag_seconds),
    alarms,
  ];
}

/** @param {string} name @param {number} seconds */
function lagOf(name, seconds) {
  return fact(name, seconds < 1 ? "on time" : `${lengthWords(seconds * 1000)} late`, "", seconds > LATE_SECONDS, "late");
}

/** A figure with its name. @param {string} name @param {Node | string} value @param {string} [unit] @param {boolean} [bad] @param {string} [kind] a CSS class */
function fact(name, value, unit = "", bad = false, kind = "") {
  return h("div.fact", { class: `${kind} ${bad ? "bad" : ""}` }, h("span.label", {}, name), h("b", {}, value, unit ? h("small", {}, ` ${unit}`) : null));
}

/** @param {any} stream @param {Pulse} pulse @param {boolean} read whether everything was read once @param {boolean} operates */
function showPulse(stream, pulse, read, operates) {
  const { sample, activity, problem } = pulse;
  const bySeries = stream.layout.partition_by === "series";
  const link = (/** @type {string} */ text, /** @type {Record<string, string>} */ question) => h("a.button", { href: hashOf(bySeries && question.ask ? "latest" : "explore", { stream: stream.stream, ...question }), "aria-label": `${text}: ${stream.stream}` }, text);
  return h("li.pulse", { "data-stream": stream.stream },
    h("h2", {}, h("a", { href: hashOf("explore", { stream: stream.stream, from: "-1h" }) }, stream.stream)),
    h("div.figures", {}, events(), newest(), operates && activity ? writes() : null, activity && activity.rollup_lag_seconds !== null ? lagOf("Rollups", activity.rollup_lag_seconds) : null),
    operates && activity ? spark(activity.write_units) : null,
    problem ? h("p.remedy", {}, `${problem.status} ${problem.code}: ${problem.message}`) : null,
    may("read") ? h("p.pulse-links", {}, link("Chart", { from: "-1h" }), link(bySeries ? "Latest" : "Newest events", bySeries ? { ask: "latest" } : { ask: "events", from: sample && sample.newest === null ? "-7d" : "-1h", show: "table" })) : null);

  function events() {
    if (bySeries || !may("read")) return null;
    if (!sample) return fact("Events", problem ? "not known" : "…");
    return fact("Events", ...rateWords(sample.rate));
  }

  function newest() {
    const written = activity?.written ? Date.parse(activity.written) : null;
    if (!bySeries && may("read")) {
      if (!sample) return newestFact(problem ? "not known" : "…");
      return newestFact(sample.newest === null ? "none in 1 h" : age(sample.newest));
    }
    if (operates) return newestFact(activity ? (written === null ? "none in 30 min" : age(written)) : read ? "not known" : "…", "Last write");
    return newestFact(bySeries ? "see Latest" : "needs the right “read”");
  }

  function writes() {
    const [number, unit] = rateWords(activity.write_units_per_second);
    return fact("Write units", number, unit, false, "units");
  }
}

/** @param {Node | string} value @param {string} [name] */
function newestFact(value, name = "Newest event") {
  return fact(name, value, "", false, "written");
}

/** @param {number} instant milliseconds */
function age(instant) {
  return h("time", { datetime: new Date(instant).toISOString(), title: `${showTime(instant)} ${zoneName()}` }, ageWords(Date.now() - instant));
}

/** The write units of half an hour as bars, a bar per minute. @param {number[]} minutes */
function spark(minutes) {
  const most = Math.max(...minutes);
  const text = most ? `Write units of the last half hour, at most ${plural(Math.round(most), "unit")} in a minute` : "No writes in the last half hour";
  return s("svg.spark", { viewBox: `0 0 ${minutes.length * 6} 32`, preserveAspectRatio: "none", role: "img", "aria-label": text }, s("title", {}, text),
    minutes.map((units, number) => s("rect", { x: number * 6 + 0.5, width: 5, y: 32 - height(units), height: height(units) })));

  /** @param {number} units */
  function height(units) {
    return most && units ? Math.max((units / most) * 32, 2) : 1;
  }
}
