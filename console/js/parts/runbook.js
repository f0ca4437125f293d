// Links from troubles, findings and alarms to the sections of the runbook, which the stage serves beside this page.

import { h } from "../dom.js";
import { hashOf } from "../state.js";
import { slugOf } from "./markdown.js";

/** A link to a section. @param {string} section its name in addresses @param {string} [text] */
export function runbookLink(section, text = "What to do") {
  return h("a", { href: hashOf("runbook", { section }) }, text);
}

/**
 * A text in which every mention of the runbook is a link: `docs/operate/runbook.md#nexttablemissing`, and `see the runbook, *Lost tables*`.
 * @param {string} text @param {string} [section] where a mention without a section leads @returns {(Node | string)[]}
 */
export function withRunbook(text, section = "") {
  return text.split(/((?:What to do: )?docs\/operate\/runbook\.md#[\w-]+|see the runbook(?:, \*[^*]+\*)?)/).map((part) => {
    const named = /#([\w-]+)$/.exec(part);
    if (named) return runbookLink(named[1]);
    const titled = /^see the runbook, \*([^*]+)\*$/.exec(part);
    if (titled) return runbookLink(slugOf(titled[1]), `see the runbook, ${titled[1]}`);
    return part === "see the runbook" && section ? runbookLink(section, part) : part;
  });
}
