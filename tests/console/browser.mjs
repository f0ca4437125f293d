// Drives headless Chromium, whose path is the argument, by commands on stdin, a JSON line each; answers are JSON lines on stdout. tests/console/browser.py writes them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Without WebGL, which the console does not use.
chromium.setGraphicsMode = false;
// A busy machine is no failure: a page that never comes to what a test waits for is one.
const PATIENCE = 180_000;
const browser = await puppeteer.launch({
  executablePath: process.argv[2], headless: "shell",
  // Of its own arguments not the single process, in which a second session cannot be opened.
  args: [...chromium.args.filter((argument) => !["--single-process", "--no-zygote"].includes(argument)), "--lang=en-US", "--disable-gpu"],
});
let context, page, log;

const setMedia = (theme, motion) => page.emulateMediaFeatures(
  [{ name: "prefers-color-scheme", value: theme }, { name: "prefers-reduced-motion", value: motion ? "no-preference" : "reduce" }]);

const commands = {
  /** A page of its own session, whose clock says `now` (epoch milliseconds) and goes on from there. Its tab keeps the texts of `session`. */
  async open({ url, width = 1280, height = 900, theme = "light", zone = "UTC", now = null, motion = false, session = {} }) {
    await context?.close();
    context = await browser.createBrowserContext();
    page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    await page.bringToFront();
    log = { errors: [], requests: [], bytes: 0 };
    await page.setViewport({ width, height, deviceScaleFactor: 1 });
    await setMedia(theme, motion);
    await page.emulateTimezone(zone);
    if (now !== null) await page.evaluateOnNewDocument(`{
      const Real = Date, ahead = ${now} - Real.now();
      globalThis.Date = class extends Real {
        constructor(...parts) { parts.length ? super(...parts) : super(Real.now() + ahead); }
        static now() { return Real.now() + ahead; }
      };
    }`);
    // Only once: what the page itself forgets stays forgotten when it is loaded again.
    await page.evaluateOnNewDocument((texts) => {
      if (location.protocol.startsWith("http") && sessionStorage.length === 0 && performance.getEntriesByType("navigation")[0]?.type !== "reload")
        for (const [name, text] of Object.entries(texts)) sessionStorage.setItem(name, text);
    }, session);
    // How much of the page jumped, by nobody's doing.
    await page.evaluateOnNewDocument(`globalThis.jumps = 0; new PerformanceObserver((list) => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) globalThis.jumps += value;
    }).observe({ type: "layout-shift", buffered: true });`);
    page.on("pageerror", (error) => log.errors.push(error.message));
    page.on("console", (message) => message.type() === "error" && log.errors.push(message.text()));
    page.on("request", (request) => log.requests.push({ url: request.url(), key: request.headers()["x-api-key"] ?? null }));
    page.on("response", async (response) => (log.bytes += Number(response.headers()["content-length"] ?? 0)));
    await page.goto(url);
    await commands.settle();
  },
  /** The system's colours change while the page is open. */
  async theme({ theme }) { await setMedia(theme, false); },
  async go({ url }) {
    await page.goto(url);
    await commands.settle();
  },
  async evaluate({ expression }) { return page.evaluate(expression); },
  /** Until an expression is true. Puppeteer stops looking, and says nothing, once an expression fails: between two views there is no h1. */
  async wait({ expression }) { await page.waitForFunction(`(() => { try { return ${expression}; } catch { return false; } })()`, { polling: 30 }); },
  /** No request was under way for a third of a second. */
  async settle() { await page.waitForNetworkIdle({ idleTime: 300 }); },
  async click({ selector }) { await page.locator(selector).setTimeout(PATIENCE).click(); },
  async type({ selector, text }) { await page.locator(selector).setTimeout(PATIENCE).fill(text); },
  async select({ selector, value }) { await page.select(selector, value); },
  /** A key, also with others held before it: `Control+Enter`. */
  async press({ key }) {
    const held = key.length > 1 ? key.split("+") : [key];
    const last = held.pop();
    for (const each of held) await page.keyboard.down(each);
    await page.keyboard.press(last);
    for (const each of held.reverse()) await page.keyboard.up(each);
  },
  async drag({ selector, from, to }) {
    const box = await (await page.waitForSelector(selector)).boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * from, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * to, y, { steps: 5 });
    await page.mouse.up();
  },
  async screenshot({ path }) { await page.screenshot({ path }); },
  /** Findings of axe-core that are serious or critical: the rule, and where. */
  async axe() {
    // The page's policy lets no script tag in.
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    return violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).map(({ id, nodes }) => [id, nodes.map(({ target }) => target.join(" "))]);
  },
  async log() { return log; },
  /** Move the mouse over an element from left to right. */
  async hover({ selector, from = 0.1, to = 0.9, steps = 20 }) {
    const box = await (await page.waitForSelector(selector)).boundingBox();
    const y = box.y + box.height / 2;
    for (let step = 0; step <= steps; step += 1) await page.mouse.move(box.x + box.width * (from + ((to - from) * step) / steps), y);
  },
  /** A link of so many milliseconds and kilobytes per second; without both, the machine's own. */
  async network({ latency = 0, speed = -1 }) {
    const session = await page.createCDPSession();
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", {
      offline: false, latency, downloadThroughput: speed < 0 ? -1 : speed * 1000, uploadThroughput: speed < 0 ? -1 : speed * 1000,
    });
  },
  async reload() {
    await page.reload();
    await commands.settle();
  },
  /** Show a page again without waiting for it. */
  async restart() { page.reload({ waitUntil: "domcontentloaded" }).catch(() => null); },
  async trace() {
    await page.tracing.start({ categories: ["disabled-by-default-devtools.timeline", "devtools.timeline", "devtools.timeline.frame", "blink.user_timing"] });
  },
  /** What the main thread of the page did since `trace`: milliseconds of its longest task, of tasks and of scripts, and frames. */
  async traced() {
    const { traceEvents: events } = JSON.parse(Buffer.from(await page.tracing.stop()).toString());
    const mains = new Set(events.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain").map(({ pid, tid }) => `${pid}.${tid}`));
    const onMain = events.filter(({ pid, tid }) => mains.has(`${pid}.${tid}`));
    const named = (...names) => onMain.filter(({ name, ph }) => names.includes(name) && ph === "X");
    const sum = (list, key) => list.reduce((total, event) => total + (event[key] ?? 0), 0) / 1000;
    const tasks = named("RunTask");
    const scripts = named("FunctionCall", "EvaluateScript", "RunMicrotasks", "TimerFire", "FireAnimationFrame", "ParseJSON").filter((event, _, all) =>
      !all.some((other) => other !== event && other.ts <= event.ts && other.ts + other.dur >= event.ts + event.dur));
    const longest = tasks.reduce((most, task) => (task.dur > most.dur ? task : most), { dur: 0, tdur: 0 });
    return { longest: longest.dur / 1000, longest_cpu: tasks.reduce((most, task) => Math.max(most, task.tdur ?? 0), 0) / 1000,
      long: tasks.filter(({ dur }) => dur > 50000).length, tasks: sum(tasks, "tdur") || sum(tasks, "dur"), scripts: sum(scripts, "dur"),
      frames: events.filter(({ name }) => name === "BeginMainThreadFrame").length };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { name, ...rest } = JSON.parse(line);
  try {
    process.stdout.write(`${JSON.stringify({ answer: (await commands[name](rest)) ?? null })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ error: String(error?.message ?? error) })}\n`);
  }
}
await browser.close();
