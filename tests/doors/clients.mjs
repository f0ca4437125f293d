// Clients of npm against a door: `node clients.mjs influx|metrics-proto|metrics-json|logs-proto|logs-json|cloudevents URL AT`.
import { InfluxDB, Point } from "@influxdata/influxdb-client";
import { OTLPLogExporter as JsonLogs } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as ProtoLogs } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPMetricExporter as JsonMetrics } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtoMetrics } from "@opentelemetry/exporter-metrics-otlp-proto";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { CloudEvent, emitterFor, httpTransport, Mode } from "cloudevents";

const [kind, url, at] = process.argv.slice(2);

/** For Node 20, which has no Promise.withResolvers. */
function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

const senders = {
  async influx() {
    const { promise, resolve, reject } = Promise.withResolvers?.() ?? deferred();
    let acknowledged = 0;
    const api = new InfluxDB({
      url,
      token: "k",
      writeOptions: {
        minRetryDelay: 1, maxRetryDelay: 5, retryJitter: 1,
        writeSuccess: (lines) => (acknowledged += lines.length) === 1200 && resolve(),
        // It is called when a try fails; undefined lets the client try again.
        writeFailed: (error, lines, attempt) => (attempt > 5 ? reject(error) : undefined),
      },
    }).getWriteApi("any", "quakes", "s");
    for (let n = 0; n < 1200; n += 1)
      api.writePoint(new Point("cpu").tag("host", `h${n % 7}`).intField("idle", n).timestamp(Number(at) - 3600 + n));
    // Sends the last points. The client tries again by itself while the program runs.
    api.flush().catch(() => {});
    await promise;
    await api.close();
  },

  async metrics(Exporter) {
    const reader = new PeriodicExportingMetricReader({ exporter: new Exporter({ url: `${url}/v1/metrics` }), exportIntervalMillis: 3600000 });
    const provider = new MeterProvider({ readers: [reader] });
    const meter = provider.getMeter("lib");
    const [orders, latency] = [meter.createCounter("orders"), meter.createHistogram("latency")];
    for (let n = 0; n < 50; n += 1) {
      orders.add(1, { user: String(n) });
      latency.record(n, { route: "/a" });
    }
    await provider.shutdown();
  },

  async logs(Exporter) {
    const provider = new LoggerProvider({ processors: [new BatchLogRecordProcessor({ exporter: new Exporter({ url: `${url}/v1/logs` }) })] });
    const logger = provider.getLogger("lib");
    for (let n = 0; n < 600; n += 1) logger.emit({ body: `order ${n}`, severityNumber: 9, attributes: { n } });
    await provider.shutdown();
  },

  async cloudevents() {
    const event = new CloudEvent({ type: "order.paid", source: "/shop", id: "e-1", subject: "café", data: { total: 4.5 } });
    for (const mode of [Mode.BINARY, Mode.STRUCTURED, Mode.BINARY])
      await emitterFor(httpTransport(`${url}/v1/streams/quakes/cloudevents`), { mode })(event);
  },
};

const [name, form] = kind.split("-");
const exporters = { metrics: { proto: ProtoMetrics, json: JsonMetrics }, logs: { proto: ProtoLogs, json: JsonLogs } };
await senders[name](exporters[name]?.[form]);
