import type { Peer } from "../../functions/http/request.ts";
import type { Environment } from "../../kit/env.ts";
import type { LogLine } from "../fakes/log.ts";
import type { Observation } from "../fakes/observer.ts";

/** What a test core tells the worker along with a request: its own configuration, database and clock, and who calls. */
export interface WorkerTestSettings {
  env: Environment;
  now: number;
  remoteAddress: string;
  certificate: string | null;
  listener: Peer["listener"];
}

/** The header that carries the settings, base64 of JSON. The worker takes it off before the app sees the request. */
export const settingsHeader = "x-test-settings";

/** `GET` of this path with the id of an answer's `traceHeader` gives the trace of that request, once. */
export const tracePath = "/test-trace/";
export const traceHeader = "x-test-trace";

/** What a request left in the log and told the observer. Errors and secrets of log lines cross as text. */
export interface Trace {
  lines: (Pick<LogLine, "level" | "message"> & { fields: string })[];
  observations: Observation[];
}

export const encodeSettings = (settings: WorkerTestSettings): string =>
  new TextEncoder().encode(JSON.stringify(settings)).toBase64();

export const decodeSettings = (text: string): WorkerTestSettings =>
  JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(text)));
