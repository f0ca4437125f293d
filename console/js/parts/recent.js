// The questions of this tab. They stay in it like the key, and no server keeps them.

import { h } from "../dom.js";
import { showMinute } from "../times.js";

const RECENT = "tidetable.recent";
const MOST = 20;

/** @typedef {{ hash: string, text: string, at: number }} Recent */

/** @returns {Recent[]} the latest first */
export function readRecent() {
  try {
    return JSON.parse(sessionStorage.getItem(RECENT) ?? "[]");
  } catch {
    return [];
  }
}

/** Note a question that was answered. @param {string} hash @param {string} text */
export function noteRecent(hash, text) {
  const others = readRecent().filter((each) => each.hash !== hash);
  sessionStorage.setItem(RECENT, JSON.stringify([{ hash, text, at: Date.now() }, ...others].slice(0, MOST)));
}

export function forgetRecent() {
  sessionStorage.removeItem(RECENT);
}

/** A list of the recent questions, read when it is opened. @returns {HTMLElement} */
export function recentMenu() {
  const panel = h("div.panel.recent");
  const menu = h("details.choice.recentmenu", {}, h("summary", {}, "Recent"), panel);
  menu.addEventListener("toggle", () => {
    const list = readRecent();
    panel.replaceChildren(...(list.length ? list.map(({ hash, text, at }) => h("a", { href: hash }, h("span", {}, text), h("time.hint", {}, showMinute(at))))
      : [h("p.hint", {}, "The queries of this tab will be listed here.")]));
  });
  return menu;
}
