import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { type ClientHttp2Session, connect } from "node:http2";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createLines } from "#scripts/bench/support/corpus/lines.ts";
import { createRandom } from "#scripts/fleet-sim/scenario/random.ts";

const tickMs = 50;

/** By a new name; so and compressed; or copied and truncated. */
export type Rotation = "rename" | "gzip" | "copytruncate";

/** Rotates `path` to `<path>.1`, and the older ones to the next number. */
const rotate = (path: string, how: Rotation) => {
  for (const suffix of ["", ".gz"])
    for (let old = 5; old >= 1; old--)
      if (existsSync(`${path}.${old}${suffix}`))
        renameSync(`${path}.${old}${suffix}`, `${path}.${old + 1}${suffix}`);
  for (const suffix of ["", ".gz"]) rmSync(`${path}.6${suffix}`, { force: true });
  if (how === "copytruncate") {
    copyFileSync(path, `${path}.1`);
    truncateSync(path);
    return;
  }
  renameSync(path, `${path}.1`);
  writeFileSync(path, "");
  if (how === "rename") return;
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(`${path}.1`)));
  rmSync(`${path}.1`);
};

const corpus = createLines(createRandom("chaos"), 0);
const texts = Array.from({ length: 10_000 }, () => corpus.next().value.text);
/** Its number makes a line unique. */
const lineOf = (number: number) => `${number} ${texts[number % texts.length]}\n`;
/** Returns the size of a line in the log. */
export const lineBytes = (number: number) => lineOf(number).length;

/** Writes `linesPerSecond` numbered lines to `path`; rotates it by rename every 20 s. */
const writeLines = (path: string, linesPerSecond: number) => {
  const perTick = (linesPerSecond * tickMs) / 1000;
  let written = 0;
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
    if (ticks % (20_000 / tickMs) === 0) rotate(path, "rename");
    let text = "";
    for (let line = 0; line < perTick; line++) text += lineOf(written++);
    appendFileSync(path, text);
  }, tickMs);
  return { written: () => written, stop: () => clearInterval(timer) };
};

/** Sends numbered spans, one per request, without retries. */
const sendSpans = (address: string, spansPerSecond: number) => {
  const perTick = (spansPerSecond * tickMs) / 1000;
  const accepted = new Set<number>();
  let sent = 0;
  let session: ClientHttp2Session | undefined;
  const sendOne = (open: ClientHttp2Session, number: number) => {
    const stream = open.request({
      ":method": "POST",
      ":path": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("error", () => undefined);
    stream.on("trailers", (trailers) => {
      if (trailers["grpc-status"] === "0") accepted.add(number);
    });
    stream.resume();
    const payload = toBinary(
      ExportTraceServiceRequestSchema,
      create(ExportTraceServiceRequestSchema, {
        resourceSpans: [
          { scopeSpans: [{ spans: [{ name: `span-${number}`, traceId: new Uint8Array(16) }] }] },
        ],
      }),
    );
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(payload.length, 1);
    stream.end(Buffer.concat([prefix, payload]));
  };
  const timer = setInterval(() => {
    if (session === undefined || session.destroyed) {
      session = connect(`http://${address}`);
      session.on("error", () => undefined);
      return;
    }
    if (session.connecting || session.closed) return;
    for (let span = 0; span < perTick; span++) sendOne(session, sent++);
  }, tickMs);
  return {
    accepted,
    sent: () => sent,
    stop: () => {
      clearInterval(timer);
      setTimeout(() => session?.destroy(), 10_000).unref();
    },
  };
};

/** Starts to write four fifths of `recordsPerSecond` as lines, and to send the rest as spans over OTLP/gRPC. */
export const startLoad = (path: string, address: string, recordsPerSecond: number) => {
  const lines = writeLines(path, recordsPerSecond * 0.8);
  const spans = sendSpans(address, recordsPerSecond * 0.2);
  return {
    /** Lines written to the log, numbered from 0; all must be stored. */
    lines: lines.written,
    /** Numbers of the requests that the collector accepted. */
    accepted: spans.accepted,
    /** Requests sent; one without a response may be stored or not. */
    sent: spans.sent,
    /** Rotates the log as logrotate does, which keeps five files. */
    rotate: (how: Rotation) => rotate(path, how),
    stop: () => {
      lines.stop();
      spans.stop();
    },
  };
};
