import { get, key, Problem, setKey } from "./api.js";
import { fill, h } from "./dom.js";
import { showDialog } from "./parts/dialog.js";
import { showBusy, showProblem } from "./parts/problem.js";
import { readState } from "./state.js";
import { setZone, zone } from "./times.js";
import { showCost } from "./views/cost.js";
import { showExplore } from "./views/explore.js";
import { showLatest } from "./views/latest.js";
import { showRanking } from "./views/ranking.js";
import { showRunbook } from "./views/runbook.js";
import { showSend } from "./views/send.js";
import { showTide } from "./views/tide.js";

/** @typedef {(place: HTMLElement, values: URLSearchParams, streams: any[], signal: AbortSignal, can: string[]) => void} View */

/** @type {Record<string, { title: string, show: View }>} */
const VIEWS = {
  tide: { title: "Tide", show: showTide },
  explore: { title: "Explore", show: showExplore },
  rankings: { title: "Rankings", show: showRanking },
  latest: { title: "Latest", show: showLatest },
  send: { title: "Send", show: showSend },
  cost: { title: "Cost", show: showCost },
};
// It has an address, and no tab: troubles and alarms link to its sections.
Object.defineProperty(VIEWS, "runbook", { value: { title: "Runbook", show: showRunbook } });
const THEME = "tidetable.theme";
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let shown = new AbortController();
/** @type {any[] | null} */
let streams = null;
/** What the key may do. @type {string[]} */
let can = [];

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { view, values } = readState();
  const chosen = VIEWS[view] ? view : "tide";
  drawTabs(chosen);
  document.title = `${VIEWS[chosen].title} – Tidetable`;
  try {
    if (!streams) {
      fill(main, showBusy());
      const { body } = await get("v1/streams");
      [streams, can] = [body.streams, body.can];
    }
    if (!signal.aborted) VIEWS[chosen].show(main, values, streams ?? [], signal, can);
  } catch (error) {
    if (signal.aborted) return;
    fill(main, showProblem(error, show));
    if (error instanceof Problem && [401, 403].includes(error.status)) openKey(key() ? "This key was refused." : "");
  }
}

/** @param {string} current */
function drawTabs(current) {
  fill(/** @type {HTMLElement} */ (document.getElementById("tabs")), Object.entries(VIEWS).map(([name, view]) =>
    h("a", { href: `#${name}`, "aria-current": name === current ? "page" : null }, view.title)));
}

function drawTools() {
  fill(/** @type {HTMLElement} */ (document.getElementById("tools")),
    h("button.quiet", { type: "button", title: "The zone in which times are shown", onclick: () => { setZone(zone() === "utc" ? "local" : "utc"); drawTools(); show(); } }, zone() === "utc" ? "UTC" : "Local time"),
    h("button.quiet", { type: "button", "aria-label": "Light or dark", onclick: () => setTheme(isDark() ? "light" : "dark") }, isDark() ? "☀" : "☾"),
    h("button.quiet", { type: "button", "aria-pressed": String(Boolean(key())), onclick: () => openKey("") }, key() ? "Key ✓" : "Key"));
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
  drawTools();
  show();
}

/** @param {string} reason */
function openKey(reason) {
  if (document.querySelector("dialog[open]")) return;
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "password", autocomplete: "off", spellcheck: "false", value: key(), "aria-label": "Key" }));
  const use = () => {
    setKey(input.value.trim());
    streams = null;
    dialog.close();
    drawTools();
    show();
  };
  const dialog = showDialog("Key",
    h("form.key", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); use(); } },
      reason ? h("p.remedy", { role: "alert" }, reason) : null,
      h("p", {}, "The key stays in this tab until it is closed, and is sent to this API alone."),
      h("label.field", {}, h("span.label", {}, "Key of the API"), input),
      h("div.buttons", {}, h("button.primary", {}, "Use this key"),
        key() ? h("button", { type: "button", onclick: () => { input.value = ""; use(); } }, "Forget it") : null)));
  input.focus();
}

const theme = localStorage.getItem(THEME);
if (theme) document.documentElement.dataset.theme = theme;
window.addEventListener("hashchange", show);
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog")) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  if (name && !event.ctrlKey && !event.metaKey && !event.altKey) location.hash = name;
});
drawTools();
show();
