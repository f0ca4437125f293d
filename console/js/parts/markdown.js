// As much of Markdown as the runbook has, as elements. Its text is set as text.

import { h } from "../dom.js";

/** @typedef {(target: string) => string | null} Linker the address of a link's target; null shows the link's text alone */

/** The name by which a heading is linked. @param {string} title */
export function slugOf(title) {
  return title.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").trim().replaceAll(" ", "-");
}

/** The sections of a text, each with the sections below it in its text. @param {string} text @returns {{ title: string, slug: string, depth: number, text: string }[]} */
export function sectionsOf(text) {
  const found = [...text.matchAll(/^(#{1,4}) (.+)$/gm)].map((match) => ({ title: match[2], slug: slugOf(match[2]), depth: match[1].length, at: match.index, from: match.index + match[0].length }));
  return found.map((section, number) => {
    const end = section.depth === 1 ? found[number + 1]?.at : found.slice(number + 1).find((other) => other.depth <= section.depth)?.at;
    return { title: section.title, slug: section.slug, depth: section.depth, text: text.slice(section.from, end) };
  });
}

/** @param {string} text @param {Linker} link @returns {HTMLElement[]} */
export function showMarkdown(text, link) {
  return blocksOf(text).map((lines) => showBlock(lines, link));
}

/** Blocks are parted by empty lines; code stays together. @param {string} text @returns {string[][]} */
function blocksOf(text) {
  /** @type {string[][]} */
  const blocks = [];
  for (const part of text.split(/\n\s*\n/)) {
    const lines = part.split("\n").filter((line) => line.trim());
    if (!lines.length) continue;
    const before = blocks.at(-1);
    if (isCode(lines) && before && isCode(before)) before.push("", ...lines);
    else if (lines[0].startsWith("#") && lines.length > 1) blocks.push([lines[0]], lines.slice(1));
    else blocks.push(lines);
  }
  return blocks;
}

/** @param {string[]} lines */
function isCode(lines) {
  return lines.every((line) => line.startsWith("    ") || !line);
}

/** @param {string[]} lines @param {Linker} link @returns {HTMLElement} */
function showBlock(lines, link) {
  if (isCode(lines)) return h("pre.json", { tabindex: 0 }, lines.map((line) => line.slice(4)).join("\n"));
  if (lines[0].startsWith("#")) return h("h3", {}, inline(lines[0].replace(/^#+ /, ""), link));
  if (lines[0].startsWith("|")) return showRows(lines, link);
  const items = listOf(lines);
  if (items) return h(/^\d/.test(lines[0]) ? "ol" : "ul", {}, items.map((item) => h("li", {}, inline(item, link))));
  return h("p", {}, inline(lines.map((line) => line.trim()).join(" "), link));
}

/** The items of a list; null if it is none. @param {string[]} lines @returns {string[] | null} */
function listOf(lines) {
  if (!/^(-|\d+\.) /.test(lines[0])) return null;
  /** @type {string[]} */
  const items = [];
  for (const line of lines)
    if (/^(-|\d+\.) /.test(line)) items.push(line.replace(/^(-|\d+\.) /, ""));
    else items.push(`${items.pop()} ${line.trim()}`);
  return items;
}

/** @param {string[]} lines @param {Linker} link */
function showRows(lines, link) {
  const rows = lines.map((line) => line.replace(/^\|\s?|\s?\|$/g, "").split(/\s*(?<!\\)\|\s*/)).filter((cells) => !cells.every((cell) => /^:?-+:?$/.test(cell)));
  return h("div.scroll.prose", { tabindex: 0, role: "region", "aria-label": "Table" }, h("table", {},
    h("thead", {}, h("tr", {}, rows[0].map((cell) => h("th", { scope: "col" }, inline(cell, link))))),
    h("tbody", {}, rows.slice(1).map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, inline(cell, link))))))));
}

/** @param {string} text @param {Linker} link @returns {(Node | string)[]} */
function inline(text, link) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*|\[[^\]]+\]\([^)]+\))/).map((part) => {
    if (part.startsWith("`")) return h("code", {}, part.slice(1, -1));
    if (part.startsWith("**")) return h("strong", {}, inline(part.slice(2, -2), link));
    if (part.startsWith("*") && part.length > 1) return h("em", {}, inline(part.slice(1, -1), link));
    const found = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part);
    if (!found) return part;
    const address = link(found[2]);
    return address === null ? h("span", { title: found[2] }, inline(found[1], link)) : h("a", { href: address }, inline(found[1], link));
  });
}
