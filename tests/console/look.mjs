import chromium from "@sparticuz/chromium"; import puppeteer from "puppeteer-core";
const [port, out, width, theme, ...hashes] = process.argv.slice(2);
const b = await puppeteer.launch({executablePath: await chromium.executablePath(), args: [...chromium.args, "--lang=en-US"], headless: "shell"});
const p = await b.newPage(); await p.setViewport({width: Number(width), height: 900, deviceScaleFactor: 1});
await p.emulateMediaFeatures([{name:"prefers-color-scheme", value: theme}]); await p.emulateTimezone("Europe/Berlin");
await p.evaluateOnNewDocument(`{const D=Date;const off=D.UTC(2026,2,31,10,1)-D.now();globalThis.Date=class extends D{constructor(...a){a.length?super(...a):super(D.now()+off)}static now(){return D.now()+off}};}`);
p.on("console", m => console.log("console", m.type(), m.text())); p.on("pageerror", e => console.log("pageerror", e.message)); p.on("requestfailed", r => console.log("failed", r.url(), r.failure()?.errorText));
let n=0; for (const h of hashes) { await p.goto("about:blank"); await p.goto(`http://127.0.0.1:${port}/console${h}`, {waitUntil:"networkidle0"}); await p.screenshot({path:`/tmp/shots/${out}-${n++}.png`}); }
await b.close();
