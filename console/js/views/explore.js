// A question about a stream: events or an aggregate of a range, as a chart, a table or JSON.

import { address, get, getText, Problem } from "../api.js";
import { fill, h, say } from "../dom.js";
import { plural, showNumber, writeJson } from "../format.js";
import { showAggregate, showEvents, showNotes, sourcesOf } from "../parts/answer.js";
import { copyMenu } from "../parts/copy.js";
import { showExplain } from "../parts/explain.js";
import { showEmpty, showProblem } from "../parts/problem.js";
import { questionForm } from "../parts/questionform.js";
import { rangeText } from "../parts/range.js";
import { noteRecent } from "../parts/recent.js";
import { showWait } from "../parts/wait.js";
import { changeQuestion, distanceOf, earlierOf, moveRange, questionText, readQuestion, requestOf } from "../question.js";
import { only, prefixOfKey } from "../rights.js";
import { go, hashOf } from "../state.js";
import { lengthText, secondsOf } from "../times.js";

const MOST_JSON = 400000;
const TABS = [["chart", "Chart"], ["table", "Table"], ["json", "JSON"], ["explain", "Explain"]];
// The shortest time between two repetitions, in seconds. Each of them costs read units.
const LEAST_SECONDS = 5;
/** The address of the question that somebody on this page wanted repeated: an address alone, of a link, repeats nothing. */
let wanted = "";
/** The chart that is shown. @type {{ destroy?: () => void } | null} */
let chart = null;

/** @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} streams @param {AbortSignal} signal */
export function showExplore(place, values, streams, signal) {
  const question = readQuestion(values, streams);
  const stream = streams.find((each) => each.stream === question.stream);
  if (!stream) return fill(place, showUnknown(question.stream, streams));
  // The former answer stays until the next is there, so that nothing jumps.
  const result = place.querySelector("section.result.explore") ?? h("section.result.explore", { "aria-label": "Answer" });
  const tabs = h("div.tabs", { role: "tablist", "aria-label": "Show the answer as" }, TABS.map(([name, title]) =>
    h("button.tab", { type: "button", role: "tab", "aria-selected": String(question.show === name), onclick: () => change({ show: name }) }, title)));
  const { path, parameters } = requestOf(question);
  const own = nameOf(question);
  const every = secondsOf(question.every);
  const pause = every ? Math.max(every, LEAST_SECONDS) : 0;
  let timer = 0;
  let waiting = new AbortController();
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    waiting.abort();
    document.removeEventListener("keydown", press);
    document.removeEventListener("visibilitychange", follow);
    setTimeout(() => { if (!result.isConnected) forgetChart(); });
  });
  document.addEventListener("keydown", press);

  /** @param {Partial<import("../question.js").Question>} changes */
  function change(changes) {
    const present = readQuestion(new URLSearchParams(location.hash.split("?")[1] ?? ""), streams);
    const next = /** @type {any} */ (changeQuestion(present, changes));
    if (changes.every || wanted === nameOf(present)) wanted = nameOf(next);
    go("explore", next);
  }

  fill(place, questionForm(question, stream, streams, change), result);
  if (question.show === "explain" && prefixOfKey())
    fill(result, bar(null), showEmpty("No plan for this key", `${only()} A plan shows the tables and indexes of all series.`));
  else ask();

  /** @param {boolean} [quietly] a repetition, which leaves the former answer as it is */
  async function ask(quietly = false) {
    clearTimeout(timer);
    // Of two questions at the same time the later one counts: the answer to the former may come after its own.
    waiting.abort();
    waiting = new AbortController();
    const mine = waiting;
    const wait = showWait(`Reading ${question.stream}, ${rangeText(question.from, question.to)}…`, () => mine.abort());
    if (!quietly) await begin(wait);
    try {
      const answers = await Promise.all([get(path, question.show === "explain" ? { ...parameters, explain: true } : parameters, mine.signal), earlier(mine.signal)]);
      if (!signal.aborted && mine === waiting) show(...answers, quietly);
    } catch (error) {
      if (signal.aborted || mine !== waiting) return;
      forgetChart();
      if (/** @type {any} */ (error).name === "AbortError") fill(result, bar(null), showEmpty("Cancelled", "This page has stopped waiting. The API may still read.", again()));
      else fill(result, bar(null), showProblem(error, () => ask()));
      if (!(error instanceof Problem) || error.status === 0 || error.status >= 500 || error.status === 429) repeat(error instanceof Problem ? error.wait : 0);
    } finally {
      wait.done();
      if (!signal.aborted && mine === waiting) result.classList.remove("stale");
    }
  }

  /** @param {HTMLElement} wait */
  async function begin(wait) {
    result.classList.add("stale");
    if (!result.querySelector(".content")) fill(result, bar(null), h("div.content.coming"));
    result.append(wait);
  }

  function again() {
    return h("p", {}, h("button", { type: "button", onclick: () => ask() }, "Run again"));
  }

  /** The same of an earlier range, if the question compares. @param {AbortSignal} until */
  async function earlier(until) {
    const distance = distanceOf(question);
    if (!distance || question.show !== "chart" || question.form === "heat") return null;
    const request = requestOf(earlierOf(question, distance));
    return { distance, answer: await get(request.path, request.parameters, until) };
  }

  /** @param {import("../api.js").Answer} answer @param {{ distance: number, answer: import("../api.js").Answer } | null} before @param {boolean} quietly */
  function show(answer, before, quietly) {
    const rows = answer.body.events ?? answer.body.aggregates ?? [];
    const focused = document.activeElement instanceof HTMLElement && result.contains(document.activeElement) ? document.activeElement : null;
    const cursor = { ...(/** @type {any} */ (chart)?.plot?.cursor) };
    const content = h("div.content");
    forgetChart();
    fill(result, bar(answer, before?.answer), showNotes(answer.body, question, change), content);
    if (question.show === "explain") fill(content, showExplain(answer.body));
    else if (question.show === "json") fill(content, showJson(answer.body));
    else if (!rows.length && !before?.answer.body.aggregates?.length) fill(content, showEmpty("Nothing in this range", "Choose a longer range, or remove a condition.", wider()));
    else chart = (question.ask === "events" ? showEvents : showAggregate)(content, { rows, body: answer.body, before, question, stream, change });
    noteRecent(hashOf("explore", /** @type {any} */ ({ ...question, every: "", sort: "", hide: [] })), questionText(question));
    if (quietly) restore(focused, cursor);
    else say(question.show === "explain" ? "The plan is shown." : `${plural(rows.length, "row")} shown.`);
    repeat();
  }

  /** A repetition takes neither the focus nor the cursor away. @param {HTMLElement | null} focused @param {any} cursor */
  function restore(focused, cursor) {
    if (focused) findAlike(result, focused)?.focus({ preventScroll: true });
    if (cursor.left >= 0) /** @type {any} */ (chart)?.plot?.setCursor({ left: cursor.left, top: cursor.top });
  }

  function wider() {
    return h("p", {}, h("button", { type: "button", onclick: () => change({ ...moveRange(question, { times: 4 }), step: "" }) }, "Look at four times the range"));
  }

  /** Ask again after the chosen time, as long as somebody looks. @param {number} [wait] seconds that the API wants */
  function repeat(wait = 0) {
    if (!pause || signal.aborted || wanted !== own) return;
    timer = window.setTimeout(follow, Math.max(pause, wait) * 1000);
  }

  /** A button for an address that says how often to ask again: a link must not spend read units by itself. */
  function repeater() {
    return h("button.repeat", { type: "button", onclick: () => { wanted = own; ask(); } }, `Repeat every ${lengthText(pause)}`);
  }

  function follow() {
    document.removeEventListener("visibilitychange", follow);
    if (document.hidden) document.addEventListener("visibilitychange", follow);
    else ask(true);
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    const target = event.target instanceof HTMLElement ? event.target : null;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      // The field under the cursor may hold a change that is not in the address yet.
      target?.blur();
      if (!signal.aborted) ask();
      return;
    }
    if (event.key === "Escape" && result.querySelector(".wait")) return waiting.abort();
    if (event.ctrlKey || event.metaKey || event.altKey || target?.closest("input, textarea, select, dialog, .scroll, [role=group]")) return;
    const moves = /** @type {Record<string, { by?: number, times?: number }>} */ ({ ArrowLeft: { by: -0.5 }, ArrowRight: { by: 0.5 }, "-": { times: 2 }, "+": { times: 0.5 } });
    if (moves[event.key]) {
      event.preventDefault();
      change({ ...moveRange(question, moves[event.key]), step: "" });
    } else if (event.key === "r") ask();
  }

  /** @param {import("../api.js").Answer | null} answer @param {import("../api.js").Answer} [before] */
  function bar(answer, before) {
    return h("div.resultbar", {}, tabs, h("span.cost", {}, answer ? costText(answer, before) : ""), pause && wanted !== own ? repeater() : null,
      copyMenu(address(path, parameters), () => getText(path, { ...parameters, format: "csv" }), `${question.stream}.csv`));
  }
}

/** The element that takes the place of a former one: of the same kind and text, or the only one of its kind. @param {Element} place @param {HTMLElement} former */
function findAlike(place, former) {
  const alike = /** @type {HTMLElement[]} */ ([...place.querySelectorAll(former.localName)].filter((each) => each.className === former.className));
  return alike.find((each) => each.textContent === former.textContent) ?? (alike.length === 1 ? alike[0] : null);
}

/** The address of a question, however its answer is shown. @param {import("../question.js").Question} question */
function nameOf(question) {
  return hashOf("explore", /** @type {any} */ ({ ...question, sort: "", hide: [] }));
}

function forgetChart() {
  chart?.destroy?.();
  chart = null;
}

/** @param {any} body */
function showJson(body) {
  const text = writeJson(body, 2);
  return [h("pre.json", { tabindex: 0 }, text.slice(0, MOST_JSON)),
    text.length > MOST_JSON ? h("p.hint", {}, `The first ${plural(MOST_JSON, "character")} of ${showNumber(text.length)}; curl reads all.`) : null];
}

/** @param {import("../api.js").Answer} answer @param {import("../api.js").Answer} [before] of the earlier range */
function costText(answer, before) {
  const both = before ? [answer, before] : [answer];
  const sum = (/** @type {(each: import("../api.js").Answer) => number | null} */ part) => both.reduce((total, each) => total + (part(each) ?? 0), 0);
  const rows = answer.body.events ?? answer.body.aggregates;
  return [
    rows ? plural(rows.length, "row") : "",
    answer.units === null ? "" : plural(sum((each) => each.units), "read unit"),
    answer.requests === null ? "" : plural(sum((each) => each.requests), "request"),
    `${Math.round(Math.max(...both.map((each) => each.milliseconds)))} ms`,
    sourcesOf(answer.body).length ? `from ${sourcesOf(answer.body).join(", ")}` : "",
  ].filter(Boolean).join(" · ");
}

/** @param {string} name @param {any[]} streams */
function showUnknown(name, streams) {
  if (!streams.length) return showEmpty("No streams", "This key sees no stream. Enter another key, or add a stream to tidetable.toml.");
  return showEmpty("No such stream", `There is no stream “${name}”, or this key does not see it. It sees:`,
    h("p.links", {}, streams.map((stream) => h("a.button", { href: hashOf("explore", { stream: stream.stream }) }, stream.stream))));
}
